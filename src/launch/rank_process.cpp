#include "launch/rank_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/log.h"
#include "base/program.h"
#include "launch/bind.h"

namespace anyaccel::launch {

SignalSettings SignalSettings::current() noexcept {
  SignalSettings out;
  ::sigprocmask(SIG_SETMASK, nullptr, &out.mask);
  for (std::size_t i = 0; i < std::size(kHandled); ++i)
    ::sigaction(kHandled[i], nullptr, &out.actions[i]);
  return out;
}

void SignalSettings::restore() const noexcept {
  for (std::size_t i = 0; i < std::size(kHandled); ++i)
    ::sigaction(kHandled[i], &actions[i], nullptr);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void become_rank(const JobRank& rank, const std::vector<std::string>& unset,
                 RankDescriptors descriptors, int input, const SignalSettings& signals, pid_t guard,
                 pid_t group, int orphaned) {
  // Join the launcher's process group, so that the rank can read from the terminal and receives its
  // Ctrl-C.
  if (group != 0) ::setpgid(0, group);
  ::prctl(PR_SET_PDEATHSIG, orphaned);
  if (::getppid() != guard) ::_exit(128 + SIGKILL);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (descriptors.output >= 0) ::dup2(descriptors.output, STDOUT_FILENO);
  if (descriptors.error >= 0) ::dup2(descriptors.error, STDERR_FILENO);
  const auto name = "launch: rank " + std::to_string(rank.rank) + ": ";
  if (rank.bound) {
    const auto result = bind_this_process(rank.plan);
    for (const auto& refused : {result.cores_refused, result.memory_refused})
      if (!refused.empty()) log(LogLevel::warning, name + refused);
  }
  for (const auto& variable : unset) ::unsetenv(variable.c_str());
  for (const auto& [variable, value] : rank.environment)
    ::setenv(variable.c_str(), value.c_str(), /*overwrite=*/1);
  std::vector<char*> words;
  for (const auto& word : rank.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const auto path = find_program(rank.command.front());
  signals.restore();
  errno = ENOENT;
  if (path) ::execv(path->c_str(), words.data());
  const int error = errno;
  std::string text = name + "cannot run " + rank.command.front() + ": " + std::strerror(error);
  if (error == ENOEXEC) text += " (a script needs a first line such as #!/bin/sh)";
  log(LogLevel::error, text);
  ::_exit(error == ENOENT ? 127 : 126);
}

}  // namespace anyaccel::launch
