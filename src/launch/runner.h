// Ranks started by an MPI or Slurm launcher, here called a runner: it starts this program as an
// agent of one rank (rank_agent.h) on each slot of each host.
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace anyaccel::launch {

/// True for those that start each rank themselves: openmpi, mpich, impi, mvapich and slurm.
bool starts_each_rank(Runner runner) noexcept;

/// Its program in PATH, known by what it says of itself: several MPIs have an `mpirun`. Empty when
/// it is not there.
std::string find_runner(Runner runner);

/// The usual name of its program.
std::string usual_program(Runner runner);

/// Throws `not_found` that says what to install for an empty name, and `invalid_argument` for what
/// the runner is known to refuse: Open MPI as root.
void check_runner(const Options& options, const std::string& runner_program);

/// The runner as a job of one process. `program` is this program's path on all hosts. Throws
/// `unsupported` for an option that the runner has no way for.
Job runner_job(const Options& options, const JobInput& input, const std::string& program,
               const std::string& runner_program);

}  // namespace anyaccel::launch
