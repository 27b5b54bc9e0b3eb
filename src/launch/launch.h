// Makes a job from the options of `anyaccel launch`.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"

namespace anyaccel::launch {

struct Launch {
  Job job;  ///< the ranks of this host; if other hosts are reached, one client per host in place of
            ///< the ranks, or with --dry_run all ranks
  bool remote = false;  ///< other hosts are reached
  bool agents = false;  ///< the job's processes start agents, which start and report on ranks
};

/// Makes a job from the options, the host file, devices, topology, variables and files of this
/// host. Starts no rank. If other hosts are reached by ssh or pdsh, connects to the first one to
/// get its address or to check that it can be reached. `program` is the path of this program, which
/// must be the same on all hosts. With an MPI or Slurm launcher, the job has one process, which
/// starts all ranks, even on a single host. Throws the errors of all steps.
ANYACCEL_API Launch make_launch(const Options& options, const std::string& program);

/// Returns a TCP port of this machine that is free now. Throws `unavailable`.
int free_port();

/// Describes the job in a readable text.
ANYACCEL_API std::string describe(const Job& job);

}  // namespace anyaccel::launch
