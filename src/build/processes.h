// Programs that a build runs: argument vectors, never a shell; none outlives the process that started it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::build {

struct Outcome {
  int status = 0;      ///< exit code; 128 + signal for a program that a signal ended
  std::string output;  ///< standard output and error
};

/// Runs a program to its end. `words[0]` is its path. Throws `unavailable` when it cannot be started.
Outcome run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment);

/// Programs that run side by side, in a process group whose first member kills all of it when our process ends, however
/// that happens. The compiler's own children are in it too. Not thread-safe; used from the thread that made it.
class ProcessGroup {
 public:
  ProcessGroup();
  /// Kills what still runs.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Both outputs go to `output`. Throws `unavailable`.
  pid_t start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
              const std::filesystem::path& output);

  struct Ended {
    pid_t process = 0;  ///< 0: none ended within the time
    int status = 0;     ///< -1: the process ignores SIGCHLD, so nobody knows
  };
  /// The next that ends, waiting `milliseconds` at most.
  Ended wait(int milliseconds);

 private:
  Ended forget(pid_t process);
  pid_t guard_ = 0;
  std::vector<pid_t> running_;
};

/// A command as it can be typed into a shell. Only for people: it is never run.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace anyaccel::build
