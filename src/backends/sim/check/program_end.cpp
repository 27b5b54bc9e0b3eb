#include "backends/sim/check/program_end.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <exception>

#include "anyaccel/error.h"

namespace anyaccel::backends::sim::checking {

namespace {

void (*on_end)(bool, Uncaught) = nullptr;
std::terminate_handler terminate_before = nullptr;
std::atomic<Uncaught> python_uncaught{Uncaught::unknown};

Uncaught current_exception_kind() noexcept {
  const auto error = std::current_exception();
  if (error == nullptr) return Uncaught::unknown;
  try {
    std::rethrow_exception(error);
  } catch (const c10::OutOfMemoryError&) {
    return Uncaught::out_of_memory;
  } catch (const Error& raised) {
    return raised.code() == ErrorCode::out_of_memory ? Uncaught::out_of_memory : Uncaught::other;
  } catch (...) {
    return Uncaught::other;
  }
}

void on_terminate() {
  on_end(/*failed=*/true, current_exception_kind());
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

}  // namespace

void watch_program_end(void (*ended)(bool failed, Uncaught uncaught)) {
  on_end = ended;
  terminate_before = std::set_terminate(&on_terminate);
  // Unlike atexit(), on_exit() passes the exit status.
  ::on_exit([](int status, void* /*unused*/) { on_end(status != 0, python_uncaught.load()); },
            nullptr);
}

void python_failed(int out_of_memory) noexcept {
  python_uncaught.store(out_of_memory != 0 ? Uncaught::out_of_memory : Uncaught::other);
}

}  // namespace anyaccel::backends::sim::checking
