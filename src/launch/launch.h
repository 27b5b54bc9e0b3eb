// Plans a job from the options of `anyaccel launch`.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"

namespace anyaccel::launch {

struct Launch {
  /// The ranks on this host. If other hosts are used: one client per host, or all ranks with
  /// --dry_run.
  Job job;
  bool remote = false;  ///< whether other hosts are used
  bool agents =
      false;  ///< whether the job's processes start agents, which start ranks and report on them
};

/// Plans a job from the options and from this host's host file, devices, topology, environment and
/// files. Does not start ranks. If other hosts are reached by ssh or pdsh, connects to the first
/// one to get its address or to check that it can be reached. `program` is the path of this
/// program, which must be the same on all hosts. With an MPI or Slurm launcher, the job has one
/// process, which starts all ranks, even on a single host. Propagates the errors of all steps.
ANYACCEL_API Launch make_launch(const Options& options, const std::string& program);

/// Returns a TCP port on this machine that is currently free. Throws `unavailable`.
int free_port();

/// Returns a readable description of the job.
ANYACCEL_API std::string describe(const Job& job);

}  // namespace anyaccel::launch
