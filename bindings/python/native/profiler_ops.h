// Ops and allocations of one thread, as rows of numbers in the trace. torch's profiler takes many
// times as long to convert an op to a trace event.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace anyaccel::python::profiler {

using Ticks = c10::approx_time_t;

struct OpRecord {
  Ticks begin = 0;
  std::atomic<Ticks> end{0};  // 0: still running
  std::int64_t sequence = -1;
  std::uint32_t kind = 0;
};

/// Appends an op as JSON: [name, [shape, ...], [type, ...], forward thread]. The types have the
/// names that torch's profiler uses. May run Python code, if a tensor computes its sizes in Python.
void describe_op(const at::RecordFunction& op, std::string& text);

/// The ops of a thread in a window. The owner synchronizes calls.
class OpLog {
 public:
  /// Adds a running op. The record stays valid until the second clear() from now, so that an op
  /// that has just begun while a window ends can still write to it.
  OpRecord& add(const std::string& description, std::int64_t sequence);
  std::size_t size() const { return size_; }
  void clear();

  /// Appends the ops as trace events that `events.py` reads, each with a comma and a newline:
  /// {"ph":"ops","tid":THREAD,"logical":THREAD,"kinds":[DESCRIPTION, ...],"rows":[...]}. A row
  /// consists of the index of a description, counted over the thread's events, the nanoseconds
  /// since the previous row's begin (the first row: since the base), the duration in nanoseconds,
  /// and the sequence number.
  void write(int thread, std::uint64_t logical, std::int64_t base,
             const std::function<std::int64_t(Ticks)>& clock, std::string& text) const;

 private:
  static constexpr std::size_t kChunk = 1024;
  using Chunks = std::vector<std::unique_ptr<OpRecord[]>>;
  std::size_t size_ = 0;
  Chunks chunks_, retired_;
  std::unordered_map<std::string, std::uint32_t> kinds_;
  std::vector<const std::string*> descriptions_;  // by index; they point to the keys of kinds_
};

struct MemoryRecord {
  Ticks time;
  void* address;
  std::int64_t bytes;
  std::size_t allocated, reserved;
  c10::Device device;
};

/// Returns a trace event with a thread's allocations, which `events.py` reads. A row consists of
/// the nanoseconds since the previous row (the first row: since the base), the address, the bytes,
/// the allocated bytes, the reserved bytes, the device type and the device index.
std::string memory_event(int thread, const std::vector<MemoryRecord>& records, std::int64_t base,
                         const std::function<std::int64_t(Ticks)>& clock);

}  // namespace anyaccel::python::profiler
