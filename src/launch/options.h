// The command line of `anyaccel launch`. It accepts DeepSpeed's options, with the same names and
// meanings, and additional ones.
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

/// Program that starts ranks on other hosts.
enum class Runner { pdsh, ssh, openmpi, mpich, impi, mvapich, slurm };

/// Returns DeepSpeed's name for a runner. Never null.
const char* to_string(Runner runner) noexcept;

/// DeepSpeed's default host file; it may be missing.
constexpr const char* kDefaultHostFile = "/job/hostfile";

struct Options {
  bool help = false;

  // Ranks and hosts.
  std::optional<std::string> host_file;  ///< empty means kDefaultHostFile, if it exists
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;         ///< empty means all
  std::optional<int> num_accelerators;  ///< ranks per host; empty means one per device
  bool oversubscribe = false;

  // Rendezvous.
  std::string master_addr;  ///< empty means 127.0.0.1 on a single host, otherwise the first host
  std::optional<int> master_port;

  // Launcher that starts ranks on other hosts.
  std::optional<Runner> runner;
  std::string runner_arguments;  ///< quoted as in a shell
  bool no_ssh = false;
  bool no_ssh_check = false;
  std::optional<int> node_rank;
  bool force_multi = false;
  std::optional<int> ssh_port;
  std::string venv_script;

  // The program to run.
  bool module = false;
  bool no_python = false;
  bool no_local_rank = false;

  // Binding to cores.
  bool bind_cores = false;
  std::optional<std::string> core_list;
  int reserve_cores = 0;

  // Output and logs.
  bool save_pid = false;
  std::optional<std::string> log_folder;
  bool prefix_output = false;
  std::optional<LogLevel> log_level;
  bool dry_run = false;
  bool json = false;
  std::optional<std::string> topology_file;

  // Internal: options that a launcher passes to its agents on other hosts.
  std::string world;  ///< hosts and slots in filter syntax; replaces the host file
  /// End-of-file on standard input terminates the job, and failures are reported to the launcher
  /// immediately.
  bool agent = false;
  /// For an agent: after this many seconds without a heartbeat, it assumes that the launcher is
  /// gone. 0 means no limit.
  int silence = 0;

  // Internal: options of a rank agent, see rank_agent.h.
  std::optional<Runner>
      rank_agent;  ///< runner that started the agent; the command line then need not name a program
  std::optional<int> local_rank;
  std::string folder;       ///< working directory
  Variables variables;      ///< environment variables that the launcher forwards
  bool own_slots = false;   ///< see JobInput
  bool slot_nodes = false;  ///< whether to place ranks on the NUMA nodes of their slots

  std::string program;
  std::vector<std::string> arguments;
};

/// An error in the command line. what() is a message for the user.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses the arguments after `launch`. The first one that is not an option is the program, and the
/// rest are the arguments of that program. Option names may contain `_` or `-`. A value follows `=`
/// or is the next argument. Throws OptionError.
ANYACCEL_API Options parse_options(std::span<const char* const> words);

/// Returns the text of `anyaccel launch --help`.
ANYACCEL_API std::string options_help();

}  // namespace anyaccel::launch
