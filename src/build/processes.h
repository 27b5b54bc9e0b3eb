// Runs the programs of a build. Arguments are never parsed by a shell, and no program outlives this
// process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/shell.h"

namespace anyaccel::build {

struct Outcome {
  int status = 0;      ///< exit code, or 128 + signal
  std::string output;  ///< standard output and error
};

/// Runs a program and waits for its end. `command[0]` is its path. Throws `unavailable` if it
/// cannot be started, and `interrupted`.
///
/// Programs are children of a shell that runs a fixed script with the program as arguments and
/// records the exit status. The status therefore survives this process's SIGCHLD settings, and
/// threads that wait for all children. `waiting` is called about ten times a second while the
/// program runs. If it throws, the program is killed. Only the first MiB of output is kept.
Outcome run_program(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment,
                    const std::function<void()>& waiting = {});

/// Output of a program, up to 16 MiB. It is kept in memory, because on a full disk the message
/// about the full disk would be lost. Not thread-safe.
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

/// Programs that run in parallel, in a process group whose first member kills the group when our
/// process ends, for whatever reason. The group includes the compilers' own children. This process
/// is never forked, so a large process starts compilers as fast as a small one, whatever locks its
/// threads hold. Not thread-safe; use it only from the thread that created it.
class ProcessGroup {
 public:
  ProcessGroup();
  /// Kills all programs that are still running.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Standard output and error go to `output`. Throws `unavailable`.
  pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              const ProgramOutput& output);

  struct Ended {
    pid_t process = 0;  ///< 0: none ended before the timeout
    int status = 0;
  };
  /// Waits up to `milliseconds` for a program to end. Throws `interrupted`, also if the runner of a
  /// program was killed.
  Ended wait(int milliseconds);

 private:
  struct Running {
    pid_t process;
    int report;  ///< pipe from which the status is read
    std::string text = {};
  };
  Ended end(std::vector<Running>::iterator one, bool lost);
  pid_t guard_ = 0;
  int alive_ = -1;  ///< the guard's input, which is closed when this process ends
  std::vector<Running> running_;
};

}  // namespace anyaccel::build
