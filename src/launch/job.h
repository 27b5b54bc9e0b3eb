// What a launch would start on one host: every rank with its environment and its command. A value;
// `--dry-run` prints it.
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
  std::string device;  ///< its slot
  RankPlan plan;
  bool bound = false;     ///< the plan's cores and memory are to be put into force
  Variables environment;  ///< what it gets beside the launcher's own variables
  std::vector<std::string> command;
};

/// What ranks read from.
enum class RankInput {
  launcher,  ///< what the launcher reads from
  nothing,
  held,  ///< a pipe that ends when the job is to end: it stands for the launcher's life
};

struct Job {
  std::vector<JobRank> ranks;  ///< of this host; of all, where other hosts have to be reached
  RankInput input = RankInput::launcher;
  int silence = 0;  ///< for `held`: seconds after which the other end takes this one for gone; it
                    ///< gets a sign more often
  bool own_group = false;  ///< ranks get no signals of the launcher's process group, so also not a
                           ///< terminal's Ctrl-C
  std::string last_words;  ///< what the guard writes to standard error for a launcher that is gone
                           ///< without having ended the job
  int end_signal = 0;  ///< not 0: the one rank is an MPI or Slurm launcher; this asks it to have
                       ///< its processes end theirs
  /// Of an MPI launcher: seconds without a new rank after which those that were not started yet are
  /// given up; 0: for ever.
  int start_limit = 0;
  std::vector<std::string> rank_hosts =
      {};  ///< of a job whose ranks a launcher starts: the host of each of them
  int world_size = 0;
  int hosts = 1;
  std::string accelerator;
  std::string reason;  ///< why that accelerator
  std::string master_addr;
  int master_port = 0;
  std::vector<std::string> unset;  ///< variables of the launcher that ranks must not inherit
  std::vector<std::string> notes;  ///< explanations for the user, one sentence each
  std::vector<std::string> warnings = {};  ///< HostPlan::warnings of this host
  std::vector<std::string>
      runner;  ///< command of the MPI or Slurm launcher, if one starts the ranks
  Variables runner_environment =
      {};  ///< variables that command gets in addition to the launcher's own
};

/// All that a job depends on beside the options.
struct JobInput {
  JobAccelerator accelerator;
  std::vector<Host> hosts;  ///< filtered
  std::size_t host = 0;     ///< which of them this is
  topology::Machine machine;
  std::vector<int> device_nodes = {};  ///< as PlanOptions has it
  Variables file_variables = {};
  std::string python;  ///< of this machine; empty: none
  std::string master_addr;
  int master_port = 0;
  bool own_slots = false;  ///< slots have the names that this host sees: they are of no host file
  std::vector<std::string> set_variables =
      {};  ///< names of the launcher's own that matter: OMP_NUM_THREADS, ...
};

/// Names that JobInput::set_variables may have.
std::vector<std::string> variables_that_matter();

/// True when the program is run by Python: a module, or a name that ends in .py.
bool runs_in_python(const Options& options);

/// The words that start one rank. Throws `not_found` when Python is needed and not there.
std::vector<std::string> rank_command(const Options& options, const std::string& python,
                                      int local_rank);

/// Plans a job. Pure. Throws `invalid_argument` as plan_host() does.
Job plan_job(const Options& options, const JobInput& input);

/// Throws `not_found` or `invalid_argument` for a program that cannot be started, with the reason.
ANYACCEL_API void check_program(const Options& options);

}  // namespace anyaccel::launch
