#include "backends/sim/stream.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/ApproximateClock.h>
#include <dlfcn.h>
#include <pthread.h>

#include <chrono>

#include "backends/sim/device.h"
#include "backends/sim/graph.h"
#include "backends/sim/index_rows.h"
#include "backends/sim/reject.h"
#include "backends/sim/trace.h"

namespace anyaccel::backends::sim {

namespace {

constexpr std::size_t kMaxQueued = 4096;
// About 20 us: longer than the time between launches in a step, but too short to matter on a busy
// machine.
constexpr int kSpins = 2000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Sets the number of OpenMP threads for kernels that run on this thread. LibTorch ships OpenMP
/// under its own file name, so the function is looked up at run time instead of linked.
void set_openmp_threads(int count) {
  static const auto set =
      reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(count);
}

void rest(double microseconds) {
  if (microseconds > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(microseconds));
}

std::atomic<bool> forked{false};

/// Delays kernels of lower-priority streams while a high-priority stream has work to run.
void let_urgent_first(SimStream& stream) {
  auto& device = stream.device();
  if (stream.priority() < 0 || device.urgent_streams.load(std::memory_order_relaxed) == 0) return;
  // Stop waiting if the high-priority work makes no progress, because it may wait for the host.
  Ticket before = 0;
  for (int still = 0; still < 2000; ++still) {  // at least 100 ms
    bool wanted = false;
    Ticket progress = 0;
    for (const auto& other : device.streams) {
      if (other->priority() >= 0) continue;
      wanted |= other->wants_device();
      progress += other->completed();
    }
    if (!wanted) return;
    if (progress != before) still = 0;
    before = progress;
    rest(50);
  }
}

}  // namespace

void check_not_forked() {
  TORCH_CHECK(!forked.load(std::memory_order_relaxed),
              "[sim] the simulated device cannot be used in a forked child, because its worker "
              "threads do not survive fork(); use the device only in the child, or start the child "
              "with exec (multiprocessing's 'spawn' method)");
}

void SimStream::start_locked() {
  static const int once = ::pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  static_cast<void>(once);
  worker_ = std::thread([this] { work(); });
  if (priority_ < 0) device_.urgent_streams.fetch_add(1);
}

void SimStream::submit(std::unique_ptr<Task> task) {
  if (auto* into = capture()) {
    into->add(std::move(task));
    return;
  }
  check_not_forked();
  bool wake = false;
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;  // the process is exiting
    if (!worker_.joinable()) start_locked();
    queue_.push_back(std::move(task));
    ticket = submitted_.load(std::memory_order_relaxed) + 1;
    submitted_.store(ticket, std::memory_order_release);
    wake = sleeping_;
  }
  if (wake) has_work_.notify_one();
  if (ticket > kMaxQueued && !done(ticket - kMaxQueued)) wait(ticket - kMaxQueued);
}

void SimStream::wait(Ticket ticket) {
  for (int i = 0; i < kSpins; ++i) {
    if (done(ticket)) return;
    relax();
  }
  if (forked.load(std::memory_order_relaxed))
    return;  // there is no worker; callers that need an error call check_not_forked()
  waiters_.fetch_add(1);
  {
    std::unique_lock lock(mutex_);
    has_progress_.wait(lock, [&] { return completed_.load() >= ticket; });
  }
  waiters_.fetch_sub(1);
}

void SimStream::stop() {
  std::thread worker;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    worker.swap(worker_);
  }
  if (!worker.joinable()) return;
  if (forked.load()) {
    worker.detach();
    return;
  }
  has_work_.notify_one();
  worker.join();
}

void SimStream::work() {
  at::init_num_threads();
  set_openmp_threads(1);  // one thread per stream, so that streams do not compete for cores
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::GradMode::set_enabled(false);
  std::deque<std::unique_ptr<Task>> batch;
  Ticket count = 0;
  for (;;) {
    for (int i = 0; i < kSpins && submitted_.load(std::memory_order_acquire) == count; ++i) relax();
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty() && !stopping_) {
        sleeping_ = true;
        has_work_.wait(lock, [this] { return !queue_.empty() || stopping_; });
        sleeping_ = false;
      }
      if (queue_.empty()) return;
      batch.swap(queue_);
    }
    while (!batch.empty()) {
      execute_task(*this, *batch.front(), /*again=*/false);
      batch.pop_front();
      completed_.store(++count);
      if (waiters_.load() > 0) {
        { const std::lock_guard lock(mutex_); }
        has_progress_.notify_all();
      }
    }
  }
}

namespace {

thread_local Running running_now;

}  // namespace

Running running() noexcept { return running_now; }

namespace {

void run_traced(SimStream& stream, Task& task, bool again) {
  const auto start = c10::getTime();
  run_watched(task.watch.get(), [&] { task.run(again); });
  trace::add({.name = task.name(),
              .device = stream.device().index,
              .stream = stream.id(),
              .start = start,
              .end = c10::getTime(),
              .correlation = task.correlation});
}

}  // namespace

void execute_task(SimStream& stream, Task& task, bool again) {
  auto& device = stream.device();
  try {
    if (task.kernel()) {
      let_urgent_first(stream);
      rest(device.latency_us + task.fault.delay_us);
      if (task.fault.lost || device.lost()) return;
      TORCH_CHECK(!task.fault.fails, "SIM_FAULTS made this kernel fail");
    }
    running_now = {.stream = &stream, .op = task.name()};
    if (task.rows != nullptr) task.rows->read();
    if (task.kernel() && trace::active.load(std::memory_order_relaxed)) {
      run_traced(stream, task, again);
    } else {
      run_watched(task.watch.get(), [&] { task.run(again); });
    }
  } catch (const c10::Error& error) {
    device.fail(task.name(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    device.fail(task.name(), error.what());
  } catch (...) {
    device.fail(task.name(), "unknown error");
  }
}

void launch(SimStream& stream, std::unique_ptr<Task> task, const LaunchInfo& info) {
  auto& device = stream.device();
  device.check_not_lost();
  if (trace::active.load(std::memory_order_relaxed)) task->correlation = trace::correlation();
  if (auto* watching = observer()) {
    auto told = info;
    if (auto* capture = stream.capture()) {
      told.graph = capture->work();
      told.pool = capture->pool();
    }
    watching->on_launch(stream, told);
    if (task->kernel() && !told.replay) task->watch = watching->watch_kernel(stream, told);
  }
  // Captured work runs at a replay, which counts as one launch.
  if (task->kernel() && stream.capture() == nullptr) {
    device.launches.add();
    if (device.faults.any()) task->fault = device.faults.launch(info.op);
    if (task->fault.lost) device.lose(info.op);
  }
  stream.submit(std::move(task));
}

void synchronize(SimStream& stream) {
  if (stream.capture() != nullptr)
    reject(
        "a stream cannot be synchronized while a graph is capturing it; synchronize after "
        "capture_end()");
  check_not_forked();
  if (auto* watching = observer()) watching->on_stream_synchronize(stream);
  stream.wait(stream.last());
  stream.device().raise();
}

}  // namespace anyaccel::backends::sim
