#include "anyaccel/interrupt.h"

#include <atomic>

#include "anyaccel/error.h"

namespace anyaccel {

namespace {

std::atomic<InterruptCheck> slot{nullptr};

}  // namespace

void set_interrupt_check(InterruptCheck check) noexcept { slot.store(check); }

void throw_if_interrupted(const char* where) {
  const auto check = slot.load();
  if (check != nullptr && check())
    throw Error(ErrorCode::interrupted, where, {.what = "the program was asked to stop"});
}

}  // namespace anyaccel
