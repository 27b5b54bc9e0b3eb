// Writes problems to standard error and a JSON file, and ends the program if requested. Does not
// use torch.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "backends/sim/check/problem.h"
#include "backends/sim/check/suppressions.h"

namespace anyaccel::backends::sim::checking {

/// Thread-safe. Only the process that created the reporter writes the file.
class Reporter {
 public:
  /// `json_file`: empty for none; "%p" is replaced by the PID. `aborts`: a problem aborts the
  /// program (SIGABRT).
  Reporter(bool aborts, const std::string& json_file, Suppressions suppressions = {});

  /// If the problem is a repeated one, counts it and returns true. Does not need the problem's
  /// stack.
  bool count(const Problem& problem);
  /// Like count(), for a note.
  bool count_note(const Problem& problem);
  /// Records an error that the program may still handle. Neither prints it nor ends the program.
  void note(Problem problem);
  /// Records a note and prints it, unless it is suppressed. Does not end the program.
  void notice(Problem problem);
  /// Reports the last note as a problem, because the program did not handle that error. Notes of
  /// the kinds `rejected` and `unseeded_device` do not count.
  void report_last_note();
  /// Prints a new problem, or counts a repeated one. Writes the file each time, because the program
  /// may crash next.
  void report(Problem problem);
  /// The problems so far, without suppressed ones.
  std::vector<Problem> problems() const;
  std::vector<Problem> notes() const;
  /// Forgets all problems and notes, so that a repeated problem is reported again.
  void clear();
  /// At program exit: prints the summary to standard error, and writes the file with all counts.
  void finish();

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  static Problem* alike(std::vector<Problem>& all, const Problem& problem);
  static Problem* same(std::vector<Problem>& all, const Problem& problem);
  bool count_locked(const Problem& problem);
  bool count_note_locked(const Problem& problem);
  void report_locked(Problem problem);
  void write_file() const;

  static constexpr auto kNone = static_cast<std::size_t>(-1);

  const bool aborts_;
  const std::string file_;
  const Suppressions suppressions_;
  const std::string rank_;  ///< from the launcher's RANK; empty outside of jobs
  const pid_t process_;
  mutable std::mutex mutex_;
  std::vector<Problem> problems_;
  std::vector<Problem> notes_;
  std::vector<Problem> suppressed_;
  std::size_t last_note_ = kNone;  ///< the last note that may end the program
  std::uint64_t left_out_ = 0;
};

}  // namespace anyaccel::backends::sim::checking
