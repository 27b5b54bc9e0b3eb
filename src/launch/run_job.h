// Runs a job's ranks on this host to their end, and tells the truth about it.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"
#include "launch/output.h"

namespace anyaccel::launch {

struct RunSettings {
  OutputSettings output;
  bool agent = false;  ///< for a launcher at the other end of standard error, which gets a report
                       ///< of a failure at once
  int ends_with = -1;  ///< a descriptor whose end ends the job: standard input, or a process's
  bool one_rank = false;  ///< the agent of one rank: SIGALRM and SIGQUIT ask for its end, which is
                          ///< then no failure; SIGUSR1 and SIGUSR2 are the rank's
  bool asked_by_end = false;  ///< with `one_rank`: what ends_with tells is such a request
  int silence = 0;  ///< of an agent: seconds without a byte on standard input after which that
                    ///< launcher is taken for gone
  bool save_pid =
      false;  ///< /tmp/<process>.deepspeed holds this process's number while the job runs
};

/// Starts all ranks and returns when no process of any is left. Returns the exit code for the
/// program: 0 when all ranks ended with 0; that of the rank that failed first, 128 + N for one that
/// signal N ended; 128 + N when SIGINT, SIGTERM, SIGHUP or SIGQUIT ended the job. The other ranks
/// are ended when one fails. A failure is told on standard error: which rank, where, how, and its
/// last lines.
///
/// For a process of one thread, once at a time: it takes over those signals, but for ignored ones,
/// and gives them back. Throws `unavailable` and `io` when ranks cannot be started.
ANYACCEL_API int run_job(const Job& job, const RunSettings& settings);

/// "exit code 3", "signal 11 (Segmentation fault)", of a status of waitpid().
std::string describe_status(int status);
/// What a shell makes of it.
int exit_code_of(int status);

}  // namespace anyaccel::launch
