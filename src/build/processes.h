// Programs that a build runs: argument vectors, never a shell; none outlives the process that started it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/shell.h"

namespace anyaccel::build {

struct Outcome {
  int status = 0;      ///< exit code; 128 + signal for a program that a signal ended
  std::string output;  ///< standard output and error
};

/// Runs a program to its end. `words[0]` is its path. Throws `unavailable` when it cannot be started, and `interrupted`.
///
/// Programs are children of a shell with a fixed script, which gets them as arguments and writes down how they ended: what this process
/// does with SIGCHLD, or a thread of it that waits for all children, takes no answer away.
/// `waiting` is called about ten times a second while the program runs. If it throws, the program is killed. The output's first MiB
/// is kept.
Outcome run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                    const std::function<void()>& waiting = {});

/// What a program writes, kept in memory and not in a file: a full disk would lose the message that it is full. What exceeds
/// 16 MiB is lost. Not thread-safe.
class ProgramOutput {
 public:
  /// Throws `unavailable`.
  ProgramOutput();
  ~ProgramOutput();
  ProgramOutput(const ProgramOutput&) = delete;
  ProgramOutput& operator=(const ProgramOutput&) = delete;
  int descriptor() const noexcept { return descriptor_; }
  std::string text() const;

 private:
  int descriptor_;
};

/// Programs that run side by side, in a process group whose first member kills all of it when our process ends, however
/// that happens. The compiler's own children are in it too. This process is never copied: a large one starts compilers as fast as
/// a small one, whatever its threads hold. Not thread-safe; used from the thread that made it.
class ProcessGroup {
 public:
  ProcessGroup();
  /// Kills what still runs.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Standard output and error go to `output`. Throws `unavailable`.
  pid_t start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
              const ProgramOutput& output);

  struct Ended {
    pid_t process = 0;  ///< 0: none ended within the time
    int status = 0;
  };
  /// The next that ends, waiting `milliseconds` at most. Throws `interrupted`, also when somebody killed one of the group.
  Ended wait(int milliseconds);

 private:
  struct Running {
    pid_t process;
    int report;  ///< where its status comes from
    std::string text = {};
  };
  Ended end(std::vector<Running>::iterator one, bool lost);
  pid_t guard_ = 0;
  int alive_ = -1;  ///< the guard's input; its end is the end of this process
  std::vector<Running> running_;
};

}  // namespace anyaccel::build
