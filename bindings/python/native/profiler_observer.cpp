// LibTorch is built without assertions. With assertions enabled here, RecordFunction would have one
// more member than in LibTorch.
#ifndef NDEBUG
#define NDEBUG
#endif

#include <ATen/record_function.h>
#include <c10/util/ApproximateClock.h>
#include <pthread.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <new>
#include <thread>

#include "profiler.h"
#include "profiler_ops.h"

namespace anyaccel::python::profiler {

namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

/// Maximum number of events per thread and window. Limits the recorder's memory usage.
constexpr std::size_t kMostPerThread = 1 << 20;
/// Maximum number of ranges of all threads. Ranges accumulate while the recording is paused.
constexpr std::size_t kMostRanges = 1 << 20;

constexpr std::size_t kMemoryPerEvent = 256;

struct LineRecord {
  Ticks time;
  std::uint32_t line;
};

struct ThreadLog {
  int id = 0;
  std::uint64_t logical = at::RecordFunction::currentThreadId();
  std::string name;
  std::atomic<int> depth{0};
  std::atomic<std::uint64_t> ops{0};
  std::atomic<bool> ended{false};
  std::string description;  // buffer of the thread, which keeps its memory
  std::mutex mutex;         // guards the records
  std::vector<LineRecord> lines;
  std::vector<MemoryRecord> memory;
  OpLog ops_log;
};

struct Range {
  int thread = 0;
  std::string name;
  Ticks begin = 0, end = 0;
};

/// Never freed, because threads may run ops while static objects are destroyed.
struct State {
  std::mutex mutex;
  std::list<std::shared_ptr<ThreadLog>> threads;
  std::list<Range> open_ranges, ranges;
  c10::ApproximateClockToUnixTimeConverter clock;
  std::atomic<bool> lines{false}, memory{false}, ranges_wanted{false};
  /// Set if the observer records the ops, instead of torch's profiler.
  std::atomic<bool> records_ops{false};
  Ticks window_began = 0;
  /// Set from the first window on. torch keeps a running sum of the allocated memory, but only
  /// while an observer requests it, so the sum would miss memory that is freed between windows.
  std::atomic<bool> memory_sum{false};
  /// Number of open TorchScript frames in all threads. A frame that waits for a future may end on
  /// another thread, so a count per thread might never return to 0.
  std::atomic<int> frames{0};
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  std::uint64_t ops_of_ended = 0;
};
State& state() {
  static auto* instance = new State;
  return *instance;
}

struct ThreadLogHolder {
  std::shared_ptr<ThreadLog> log = std::make_shared<ThreadLog>();
  ThreadLogHolder() {
    log->id = static_cast<int>(::gettid());
    char name[32] = "";
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    log->name = name;
    const std::lock_guard lock(state().mutex);
    state().threads.push_back(log);
  }
  ~ThreadLogHolder() { log->ended.store(true); }
  ThreadLogHolder(const ThreadLogHolder&) = delete;
  ThreadLogHolder& operator=(const ThreadLogHolder&) = delete;
};
ThreadLog& this_thread() {
  static thread_local ThreadLogHolder holder;
  return *holder.log;
}

/// Receives allocations. torch's profiler reports them only for the thread that enabled it.
class MemoryObserver final : public ProfilerStateBase {
 public:
  MemoryObserver() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}
  void reportMemoryUsage(void* address, std::int64_t bytes, std::size_t allocated,
                         std::size_t reserved, c10::Device device) override {
    if (!state().memory.load()) return;
    auto& log = this_thread();
    const std::lock_guard lock(log.mutex);
    if (log.memory.size() < kMostPerThread)
      log.memory.push_back(
          {c10::getApproximateTime(), address, bytes, allocated, reserved, device});
  }
  bool memoryProfilingEnabled() const override { return state().memory_sum.load(); }
  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }
};

const std::shared_ptr<c10::DebugInfoBase>& memory_observer() {
  static const auto* observer =
      new std::shared_ptr<c10::DebugInfoBase>(std::make_shared<MemoryObserver>());
  return *observer;
}

void observe_memory() {
  // The program's own profiler takes precedence. Threads that autograd starts inherit the observer.
  if (c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) == nullptr)
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, memory_observer());
}

bool is_frame(const at::RecordFunction& op) {
  return op.scope() == at::RecordScope::TORCHSCRIPT_FUNCTION;
}

struct OpContext final : at::ObserverContext {
  explicit OpContext(OpRecord& op) : record(op) {}
  OpRecord& record;
};

void begin_top_op(ThreadLog& log) {
  if (state().memory.load(std::memory_order_relaxed)) observe_memory();
  if (!state().lines.load(std::memory_order_relaxed)) return;
  const auto time = c10::getApproximateTime();
  const auto line = current_line();
  if (line == kNoFrame) return;
  const std::lock_guard lock(log.mutex);
  if (log.lines.size() < kMostPerThread) log.lines.push_back({time, line});
}

std::unique_ptr<at::ObserverContext> begin_op(const at::RecordFunction& op) {
  auto& log = this_thread();
  log.ops.store(log.ops.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const int depth = log.depth.load(std::memory_order_relaxed);
  if (is_frame(op))
    state().frames.fetch_add(1);
  else
    log.depth.store(depth + 1, std::memory_order_release);
  if (depth == 0) begin_top_op(log);
  if (!state().records_ops.load(std::memory_order_relaxed)) return nullptr;
  // A tensor may run ops to compute its sizes, so they must not use the same buffer.
  std::string text;
  text.swap(log.description);
  text.clear();
  describe_op(op, text);
  const std::lock_guard lock(log.mutex);
  std::unique_ptr<OpContext> context;
  if (log.ops_log.size() < kMostPerThread) {
    context = std::make_unique<OpContext>(log.ops_log.add(text, op.seqNr()));
    context->record.begin = c10::getApproximateTime();
  }
  text.swap(log.description);
  return context;
}

void end_op(const at::RecordFunction& op, at::ObserverContext* context) {
  if (context != nullptr)
    static_cast<OpContext*>(context)->record.end.store(c10::getApproximateTime(),
                                                       std::memory_order_relaxed);
  if (is_frame(op)) {
    state().frames.fetch_sub(1);
    return;
  }
  auto& depth = this_thread().depth;
  const int before = depth.load(std::memory_order_relaxed);
  if (before > 0) depth.store(before - 1, std::memory_order_release);
}

struct RangeContext final : at::ObserverContext {
  explicit RangeContext(std::list<Range>::iterator place) : range(place) {}
  std::list<Range>::iterator range;
};

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& range) {
  auto& to = state();
  if (!to.ranges_wanted.load(std::memory_order_relaxed)) return nullptr;
  Range record{
      .thread = this_thread().id, .name = range.name(), .begin = c10::getApproximateTime()};
  const std::lock_guard lock(to.mutex);
  if (to.open_ranges.size() + to.ranges.size() >= kMostRanges) return nullptr;
  to.open_ranges.push_back(std::move(record));
  return std::make_unique<RangeContext>(std::prev(to.open_ranges.end()));
}

/// May run on another thread, for example for collectives.
void end_range(const at::RecordFunction& /*range*/, at::ObserverContext* context) {
  auto& to = state();
  // After fork(), the context refers to a list that the child has abandoned.
  if (context == nullptr || !to.ranges_wanted.load(std::memory_order_relaxed)) return;
  const auto range = static_cast<RangeContext*>(context)->range;
  const std::lock_guard lock(to.mutex);
  range->end = c10::getApproximateTime();
  to.ranges.splice(to.ranges.end(), to.open_ranges, range);
}

std::string microseconds(std::int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanoseconds) * 1e-3);
  return text;
}

}  // namespace

void start_observing(bool lines, bool ops) {
  auto& to = state();
  to.lines.store(lines);
  to.records_ops.store(ops);
  to.window_began = c10::getApproximateTime();
  to.memory.store(true);
  to.memory_sum.store(true);
  using at::RecordScope;
  to.handle = at::addGlobalCallback(
      at::RecordFunctionCallback(&begin_op, &end_op)
          .needsInputs(ops)
          .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION,
                   RecordScope::TORCHSCRIPT_FUNCTION, RecordScope::CUSTOM_CLASS}));
}

void stop_observing() {
  auto& to = state();
  if (to.handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(to.handle);
  to.handle = at::INVALID_CALLBACK_HANDLE;
  to.memory.store(false);
}

void leave_thread() {
  if (c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) == memory_observer().get())
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
}

bool wait_for_open_ops(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto& from = state();
  for (;;) {
    bool open = from.frames.load() > 0;
    {
      const std::lock_guard lock(from.mutex);
      for (const auto& log : from.threads)
        open = open || (!log->ended.load() && log->depth.load(std::memory_order_acquire) > 0);
    }
    if (!open) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void start_ranges() {
  state().ranges_wanted.store(true);
  at::addGlobalCallback(
      at::RecordFunctionCallback(&begin_range, &end_range).scopes({at::RecordScope::USER_SCOPE}));
}

void stop_ranges() {
  auto& from = state();
  from.ranges_wanted.store(false);
  const std::lock_guard lock(from.mutex);
  from.ranges.clear();
}

std::uint64_t observed_ops() {
  auto& from = state();
  const std::lock_guard lock(from.mutex);
  auto count = from.ops_of_ended;
  for (const auto& log : from.threads) count += log->ops.load(std::memory_order_relaxed);
  return count;
}

std::string take_ops() {
  auto& from = state();
  const auto clock = from.clock.makeConverter();
  const auto base = clock(from.window_began);
  const auto process = std::to_string(::getpid());
  std::string text = R"({"schemaVersion": 1, "baseTimeNanoseconds": )" + std::to_string(base) +
                     R"(, "traceEvents": [)" + "\n";
  std::list<std::shared_ptr<ThreadLog>> threads;
  {
    const std::lock_guard lock(from.mutex);
    threads = from.threads;
  }
  for (const auto& log : threads) {
    const std::lock_guard lock(log->mutex);
    if (log->ops_log.size() > 0)
      text += R"({"ph":"M","name":"thread_name","ts":0,"pid":)" + process + R"(,"tid":)" +
              std::to_string(log->id) + R"(,"args":{"name":"thread )" + std::to_string(log->id) +
              " (" + json_text(log->name) + ")\"}},\n";
    log->ops_log.write(log->id, log->logical, base, clock, text);
    log->ops_log.clear();
  }
  // The name that torch's profiler gives to the recorded time.
  return text + R"-({"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans",)-" +
         R"-("tid":"PyTorch Profiler","ts":0,"dur":)-" +
         microseconds(clock(c10::getApproximateTime()) - base) + "}\n]}\n";
}

Observed take_observed(std::int64_t base, bool all_ranges) {
  auto& from = state();
  Observed result;
  const auto clock = from.clock.makeConverter();
  const auto process = std::to_string(::getpid());
  const auto add = [&](const std::string& event) {
    if (!result.events.empty()) result.events += ",\n";
    result.events += event;
    ++result.count;
  };
  std::list<std::shared_ptr<ThreadLog>> threads;
  std::list<Range> ranges;
  {
    const std::lock_guard lock(from.mutex);
    threads = from.threads;
    ranges.splice(ranges.end(), from.ranges);
    if (all_ranges)
      for (auto range : from.open_ranges) {
        range.end = c10::getApproximateTime();
        ranges.push_back(std::move(range));
      }
  }
  for (const auto& range : ranges)
    add(R"({"ph":"X","cat":"user_annotation","name":")" + json_text(range.name) + R"(","pid":)" +
        process + R"(,"tid":)" + std::to_string(range.thread) + R"(,"ts":)" +
        microseconds(clock(range.begin) - base) + R"(,"dur":)" +
        microseconds(clock(range.end) - clock(range.begin)) + R"(,"args":{}})");
  for (const auto& log : threads) {
    std::vector<LineRecord> lines;
    std::vector<MemoryRecord> memory;
    {
      const std::lock_guard lock(log->mutex);
      lines.swap(log->lines);
      memory.swap(log->memory);
    }
    // Several events per thread, so that a truncated file loses few of them.
    for (std::size_t at = 0; at < memory.size(); at += kMemoryPerEvent) {
      const auto end = std::min(memory.size(), at + kMemoryPerEvent);
      add(memory_event(log->id, {memory.begin() + at, memory.begin() + end}, base, clock));
      result.count += end - at - 1;
    }
    if (lines.empty()) continue;
    Observed::Thread thread{.id = log->id};
    for (const auto& record : lines) {
      thread.start.push_back(clock(record.time));
      thread.line.push_back(record.line);
    }
    result.threads.push_back(std::move(thread));
  }
  const std::lock_guard lock(from.mutex);
  from.threads.remove_if([&](const auto& log) {
    if (!log->ended.load()) return false;
    from.ops_of_ended += log->ops.load();
    return true;
  });
  return result;
}

void forget_after_fork() {
  auto& to = state();
  to.ranges_wanted.store(false);
  to.memory.store(false);
  to.memory_sum.store(false);
  to.lines.store(false);
  to.records_ops.store(false);
  to.frames.store(0);
  // Another thread may have held the mutex or been changing these lists. They are abandoned, not
  // destroyed.
  new (&to.mutex) std::mutex;
  new (&to.threads) std::list<std::shared_ptr<ThreadLog>>;
  new (&to.open_ranges) std::list<Range>;
  new (&to.ranges) std::list<Range>;
  if (to.handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(to.handle);
  to.handle = at::INVALID_CALLBACK_HANDLE;
}

}  // namespace anyaccel::python::profiler
