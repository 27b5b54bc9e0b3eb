// Runs a job's ranks on this host and reports how they exited.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"
#include "launch/output.h"

namespace anyaccel::launch {

struct RunSettings {
  OutputSettings output;
  bool agent = false;  ///< report failures immediately to the launcher that reads standard error
  /// End-of-file on this descriptor terminates the job: standard input or a pidfd.
  int ends_with = -1;
  /// For a rank agent: SIGALRM and SIGQUIT ask the agent to terminate its rank, which then does not
  /// count as a failure; SIGUSR1 and SIGUSR2 are forwarded.
  bool one_rank = false;
  bool asked_by_end =
      false;  ///< with `one_rank`: end-of-file on `ends_with` also asks to terminate the rank
  /// For an agent: after this many seconds without data on standard input, it assumes that the
  /// launcher is gone.
  int silence = 0;
  bool save_pid = false;  ///< store the PID in /tmp/<id>.deepspeed while the job runs
};

/// Starts all ranks and waits until all of their processes have exited. If a rank fails, terminates
/// the others, and logs the failed rank, its host, its status and its last lines of output. Returns
/// the exit code for this program:
/// - 0 if all ranks exited with 0,
/// - the exit code of the rank that failed first, or 128 + N if signal N killed it,
/// - 128 + N if the signal N (SIGINT, SIGTERM, SIGHUP or SIGQUIT) terminated the job.
///
/// Handles these signals while the job runs, except ignored ones. Not reentrant; the process must
/// have only one thread. Throws `unavailable` and `io` if ranks cannot be started.
ANYACCEL_API int run_job(const Job& job, const RunSettings& settings);

/// Describes a status from waitpid(), for example "exit code 3" or "signal 11 (Segmentation
/// fault)".
std::string describe_status(int status);
/// Converts a status from waitpid() to an exit code, as shells do.
int exit_code_of(int status);

}  // namespace anyaccel::launch
