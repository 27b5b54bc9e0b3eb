// The command line of `anyaccel launch`: DeepSpeed's options with their names and meaning, and some
// of ours.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "base/log.h"
#include "launch/environment_file.h"

namespace anyaccel::launch {

/// What starts ranks on other hosts.
enum class Runner { pdsh, ssh, openmpi, mpich, impi, mvapich, slurm };

/// DeepSpeed's name of a runner. Never null.
const char* to_string(Runner runner) noexcept;

/// Where DeepSpeed looks for a host file when none is named; it need not be there.
constexpr const char* kDefaultHostFile = "/job/hostfile";

struct Options {
  bool help = false;

  // Which ranks.
  std::optional<std::string> host_file;  ///< empty: kDefaultHostFile where that is there
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;         ///< empty: all
  std::optional<int> num_accelerators;  ///< ranks of each host; empty: one a device
  bool oversubscribe = false;

  // How they find each other.
  std::string master_addr;  ///< empty: this machine, or the first host
  std::optional<int> master_port;

  // What starts them.
  std::optional<Runner> runner;
  std::string runner_arguments;  ///< as one shell line
  bool no_ssh = false;
  bool no_ssh_check = false;
  std::optional<int> node_rank;
  bool force_multi = false;
  std::optional<int> ssh_port;
  std::string venv_script;

  // What they are.
  bool module = false;
  bool no_python = false;
  bool no_local_rank = false;

  // Where they run.
  bool bind_cores = false;
  std::optional<std::string> core_list;
  int reserve_cores = 0;

  // What is said and kept.
  bool save_pid = false;
  std::optional<std::string> log_folder;
  bool prefix_output = false;
  std::optional<LogLevel> log_level;
  bool dry_run = false;
  bool json = false;
  std::optional<std::string> topology_file;

  // Between launchers: how one on another host is told what it has to start.
  std::string world;   ///< hosts and slots as filters write them; instead of a host file
  bool agent = false;  ///< the end of standard input ends the job; failures are reported at once,
                       ///< for the launcher at its other end
  int silence = 0;     ///< of an agent: seconds without a sign of that launcher after which it is
                       ///< taken for gone; 0: none

  // For the agent of one rank, see rank_agent.h.
  std::optional<Runner> rank_agent;  ///< what started it; then there may be no program
  std::optional<int> local_rank;
  std::string folder;       ///< where it runs
  Variables variables;      ///< what the launcher passes on
  bool own_slots = false;   ///< as JobInput has it
  bool slot_nodes = false;  ///< ranks belong to the NUMA nodes of their slots

  std::string program;
  std::vector<std::string> arguments;
};

/// A command line that is wrong: a sentence for the user.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the words after `launch`. The first one that is no option is the program; what follows it
/// is the program's. Options may be written with `_` or `-` inside, and with `=` or a blank before
/// their value. Throws OptionError.
ANYACCEL_API Options parse_options(std::span<const char* const> words);

/// Text of `anyaccel launch --help`.
ANYACCEL_API std::string options_help();

}  // namespace anyaccel::launch
