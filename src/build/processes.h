// Runs the programs that a build needs. Arguments are never parsed by a shell, and no program
// outlives this process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/shell.h"

namespace anyaccel::build {

struct Outcome {
  int status = 0;      ///< exit code, or 128 + signal
  std::string output;  ///< standard output and error
};

/// Runs a program and waits until it exits. `command[0]` is its path. Throws `unavailable` if the
/// program cannot be started, and `interrupted`.
///
/// The parent of the program is a shell, which runs a fixed script and records the exit status. The
/// status is therefore available regardless of this process's SIGCHLD settings, and even if another
/// thread waits for all children. `waiting` is called about ten times a second while the program
/// runs. If it throws, the program is killed. Only the first MiB of output is kept.
Outcome run_program(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment,
                    const std::function<void()>& waiting = {});

/// Output of a program, up to 16 MiB. It is kept in memory: on a full disk, a file would lose the
/// message that the disk is full. Not thread-safe.
class ANYACCEL_API ProgramOutput {
 public:
  /// Throws `unavailable` if the memory cannot be allocated.
  ProgramOutput();
  ~ProgramOutput();
  ProgramOutput(const ProgramOutput&) = delete;
  ProgramOutput& operator=(const ProgramOutput&) = delete;
  int descriptor() const noexcept { return descriptor_; }
  std::string text() const;

 private:
  int descriptor_;
};

/// Programs that run in parallel in one process group. The group's first member kills the group
/// when this process exits for any reason. The group includes the children of compilers. Programs
/// are started with posix_spawn(), not fork(), so starting one is fast even in a large process and
/// does not depend on locks that other threads hold. Not thread-safe; use it only from the thread
/// that created it.
class ANYACCEL_API ProcessGroup {
 public:
  ProcessGroup();
  /// Kills all programs that are still running.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Starts a program whose standard output and error go to `output`. Throws `unavailable`.
  pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              const ProgramOutput& output);

  struct Ended {
    pid_t process = 0;  ///< 0 if no program exited before the timeout
    int status = 0;
  };
  /// Waits up to `milliseconds` for a program to exit. Throws `interrupted` if the user interrupts
  /// the build or if the runner of a program was killed.
  Ended wait(int milliseconds);

 private:
  struct Running {
    pid_t process;
    int report;  ///< pipe from which the status is read
    std::string text = {};
  };
  Ended end(std::vector<Running>::iterator one, bool lost);
  pid_t guard_ = 0;
  int alive_ = -1;  ///< write end of the guard's input, which closes when this process exits
  std::vector<Running> running_;
};

}  // namespace anyaccel::build
