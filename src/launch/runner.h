// Starts ranks through an MPI or Slurm launcher, called a runner here. The runner starts this
// program as a rank agent (rank_agent.h) for each slot of each host.
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// True for runners that start each rank themselves: openmpi, mpich, impi, mvapich and slurm.
bool starts_each_rank(Runner runner) noexcept;

/// Returns the path of the runner's program in PATH, or an empty string if it is missing. The
/// program is recognized by its version text, because several MPI implementations have an `mpirun`.
std::string find_runner(Runner runner);

/// Returns the most common name of the runner's program.
std::string usual_program(Runner runner);

/// Throws `not_found` with installation advice if `runner_program` is empty, and `invalid_argument`
/// if the runner would refuse to run, as Open MPI does for root.
void check_runner(const Options& options, const std::string& runner_program);

/// Returns a job whose only process is the runner. `program` is this program's path on all hosts.
/// Throws `unsupported` for an option that the runner does not support.
Job runner_job(const Options& options, const JobInput& input, const std::string& program,
               const std::string& runner_program);

}  // namespace anyaccel::launch
