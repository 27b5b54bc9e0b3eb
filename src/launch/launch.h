// From options to a job on this host.
#pragma once

#include <string>

#include "anyaccel/export.h"
#include "launch/job.h"

namespace anyaccel::launch {

struct Launch {
  Job job;  ///< the ranks of this host; where others have to be reached, what reaches each as a
            ///< rank, or with --dry_run all ranks
  bool remote = false;  ///< other hosts have to be reached
  bool agents = false;  ///< the job's processes start ranks and report of them
};

/// What the options come to here: looks at host file, devices, topology, variables and files, and
/// starts no rank. Where other hosts have to be reached, asks the first one for its address unless
/// it is given, or whether it can be reached. `program` is this program's own path, which the other
/// hosts have too. Throws what the parts throw. Ranks of an MPI or Slurm launcher come to the one
/// process that starts them all, also on one host.
ANYACCEL_API Launch make_launch(const Options& options, const std::string& program);

/// A TCP port of this machine that nobody listens on now. Throws `unavailable`.
int free_port();

/// The job as text for people.
ANYACCEL_API std::string describe(const Job& job);

}  // namespace anyaccel::launch
