// Parts of the recorder behind `anyaccel profile` (anyaccel/profiler/recorder.py).
//
// torch's profiler records kernels, and the ops that launch them, in windows. The observer records
// what torch's profiler cannot record for all threads: source lines, memory and ranges that outlive
// a window. Without a device, it also records the ops, because torch's profiler needs more time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binding.h"

namespace anyaccel::python::profiler {

/// The program's source line is unknown.
constexpr std::uint32_t kNoFrame = UINT32_MAX;

/// Number of this thread's innermost source line outside of torch and AnyAccel, or kNoFrame. May be
/// called without the GIL, but acquires it if the line is new.
std::uint32_t current_line();

/// Sets the Python function that maps a file name to its name in the results, or to "" if the file
/// belongs to torch or AnyAccel. Requires the GIL.
void set_line_classifier(const py::object& classify);

/// Returns the texts of the lines with the numbers `first` and above.
std::vector<std::string> line_texts(std::size_t first);

/// True if this build can read the stack without the GIL. Requires the GIL.
bool reads_frames_without_gil();

/// Observes ops while a window is open. `ops`: record their times and inputs.
void start_observing(bool lines, bool ops);

/// Stops observing. Ops that are running remain counted until they end.
void stop_observing();

/// Stops observing this thread's memory, so that the program can start torch's profiler on it.
void leave_thread();

/// Waits until every op that began during observation has ended. Returns false if that takes longer
/// than `seconds`.
bool wait_for_open_ops(double seconds);

/// Observes ranges (record_function, range_push) from now on, in windows and between them.
void start_ranges();

/// Stops observing ranges and drops those that have ended.
void stop_ranges();

/// Number of ops observed so far.
std::uint64_t observed_ops();

/// Returns the window's ops as a JSON trace. Call it when all ops have ended.
std::string take_ops();

/// Data that the observer has recorded since the last call.
struct Observed {
  std::string events;  ///< trace events as JSON, separated by commas
  std::uint64_t count = 0;
  /// Per thread: its system id, start times (nanoseconds since the epoch) and line numbers.
  struct Thread {
    int id = 0;
    std::vector<std::int64_t> start;
    std::vector<std::uint32_t> line;
  };
  std::vector<Thread> threads;
};
/// `base`: start of the trace's time scale, in nanoseconds since the epoch. `all_ranges`: end the
/// open ranges now.
Observed take_observed(std::int64_t base, bool all_ranges);

/// Drops everything in a forked child, whose other threads do not exist.
void forget_after_fork();

/// `text` as the content of a JSON string.
std::string json_text(std::string_view text);

}  // namespace anyaccel::python::profiler
