// The ranks that a launch starts on one host, with their environments and commands. `--dry-run`
// prints this object.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "launch/accelerator.h"
#include "launch/environment_file.h"
#include "launch/hosts.h"
#include "launch/options.h"
#include "launch/plan.h"
#include "topology/topology.h"

namespace anyaccel::launch {

struct JobRank {
  int rank = 0;
  std::string host;
  std::string device;  ///< the rank's slot
  RankPlan plan;
  bool bound = false;     ///< whether to apply the plan's cores and memory
  Variables environment;  ///< environment variables in addition to the launcher's own
  std::vector<std::string> command;
};

/// Standard input of ranks.
enum class RankInput {
  launcher,  ///< the launcher's standard input
  nothing,
  held,  ///< a pipe; end-of-file means that the launcher has died or is terminating the job
};

struct Job {
  std::vector<JobRank>
      ranks;  ///< ranks on this host; if other hosts are used, the processes that connect to them
  RankInput input = RankInput::launcher;
  /// For `held`: after this many seconds without data, the process that reads the pipe assumes that
  /// this process is gone. Heartbeats are sent more often.
  int silence = 0;
  /// Whether to keep ranks out of the launcher's process group, so that they do not receive its
  /// signals, such as a terminal's Ctrl-C.
  bool own_group = false;
  /// Text that the guard writes to standard error if the launcher dies before terminating the job.
  std::string last_words;
  /// If not 0, the job's only process is an MPI or Slurm launcher, and sending it this signal makes
  /// its agents terminate their ranks.
  int end_signal = 0;
  /// For an MPI launcher: give up if ranks are missing and none has started for this many seconds;
  /// 0 means to wait forever.
  int start_limit = 0;
  std::vector<std::string> rank_hosts =
      {};  ///< host of each rank, if an MPI or Slurm launcher starts the ranks
  int world_size = 0;
  int hosts = 1;
  std::string accelerator;
  std::string reason;  ///< reason why this accelerator was selected
  std::string master_addr;
  int master_port = 0;
  /// The launcher's environment variables that ranks must not inherit.
  std::vector<std::string> unset;
  std::vector<std::string> notes;          ///< explanations for the user, one sentence each
  std::vector<std::string> warnings = {};  ///< this host's HostPlan::warnings
  std::vector<std::string> runner;  ///< command of the MPI or Slurm launcher; empty if none is used
  /// Environment variables for `runner` in addition to the launcher's own.
  Variables runner_environment = {};
};

/// Input for plan_job(), in addition to the options.
struct JobInput {
  JobAccelerator accelerator;
  std::vector<Host> hosts;  ///< hosts that remain after filtering
  std::size_t host = 0;     ///< index of this host in `hosts`
  topology::Machine machine;
  std::vector<int> device_nodes = {};  ///< see PlanOptions
  Variables file_variables = {};
  std::string python;  ///< path of this machine's Python; empty if there is none
  std::string master_addr;
  int master_port = 0;
  bool own_slots =
      false;  ///< slots are the names of this host's devices, not entries of a host file
  std::vector<std::string> set_variables =
      {};  ///< variables_that_matter() that are set in the launcher's environment
};

/// Returns the names of the environment variables that affect a job's plan, such as
/// OMP_NUM_THREADS.
std::vector<std::string> variables_that_matter();

/// True if Python runs the program: a module, or a file whose name ends in .py.
bool runs_in_python(const Options& options);

/// Returns the command for one rank. Throws `not_found` if Python is needed but missing.
std::vector<std::string> rank_command(const Options& options, const std::string& python,
                                      int local_rank);

/// Plans a job. Pure function. Throws the same errors as plan_host() and rank_command().
Job plan_job(const Options& options, const JobInput& input);

/// Throws `not_found` or `invalid_argument` if the program cannot be started.
ANYACCEL_API void check_program(const Options& options);

}  // namespace anyaccel::launch
