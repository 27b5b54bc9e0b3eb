// Where problems go: standard error, a JSON file, and, when asked for, the end of the program. No torch.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "backends/sim/check/problem.h"

namespace anyaccel::backends::sim::checking {

/// Thread-safe. Only the process that made it writes the file.
class Reporter {
 public:
  /// `json_file`: empty for none; "%p" in it becomes the process's number. `aborts`: a problem ends the program (SIGABRT).
  Reporter(bool aborts, const std::string& json_file);

  /// Counts a problem that was reported before. Needs no stack in it.
  bool count(const Problem& problem);
  /// Prints a new one, or counts it. The file is written each time, for the next thing to happen may be a crash.
  void report(Problem problem);
  std::vector<Problem> problems() const;
  /// At the program's end: the last word on standard error, and the file with all counts.
  void finish();

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  bool count_locked(const Problem& problem);
  void write_file() const;

  const bool aborts_;
  const std::string file_;
  const pid_t process_;
  mutable std::mutex mutex_;
  std::vector<Problem> problems_;
  std::uint64_t left_out_ = 0;
};

}  // namespace anyaccel::backends::sim::checking
