// Runs a job's ranks on this host and reports how they ended.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"
#include "launch/output.h"

namespace anyaccel::launch {

struct RunSettings {
  OutputSettings output;
  bool agent = false;     ///< report failures at once to the launcher that reads standard error
  int ends_with = -1;     ///< descriptor whose end of file ends the job: standard input or a pidfd
  bool one_rank = false;  ///< the agent of one rank: SIGALRM and SIGQUIT request the end of the
                          ///< rank, which is then not a failure; SIGUSR1 and SIGUSR2 are forwarded
  bool asked_by_end = false;  ///< with `one_rank`: the end of `ends_with` is such a request, too
  int silence = 0;  ///< for an agent: seconds without data on standard input after which it assumes
                    ///< that the launcher is gone
  bool save_pid = false;  ///< keep the process id in /tmp/<id>.deepspeed while the job runs
};

/// Starts all ranks and waits until none of their processes is left. If one rank fails, the others
/// are ended, and the rank, its host, its status and its last lines are logged. Returns the exit
/// code for the program:
/// - 0 if all ranks ended with 0,
/// - the exit code of the rank that failed first, or 128 + N if signal N ended it,
/// - 128 + N if the signal N (SIGINT, SIGTERM, SIGHUP or SIGQUIT) ended the job.
///
/// Handles these signals while the job runs, except ignored ones. Not reentrant; the process must
/// have only one thread. Throws `unavailable` and `io` if ranks cannot be started.
ANYACCEL_API int run_job(const Job& job, const RunSettings& settings);

/// Describes a status of waitpid(): "exit code 3", "signal 11 (Segmentation fault)".
std::string describe_status(int status);
/// Converts a status of waitpid() to an exit code, as shells do.
int exit_code_of(int status);

}  // namespace anyaccel::launch
