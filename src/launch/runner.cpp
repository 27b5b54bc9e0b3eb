#include "launch/runner.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <utility>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/program.h"
#include "launch/agent_arguments.h"
#include "launch/rank_agent.h"
#include "launch/run_program.h"
#include "launch/ssh.h"

namespace anyaccel::launch {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kWhere = "launch";

struct Known {
  Runner runner;
  std::vector<const char*> programs;  ///< possible names, with the most common one first
  std::vector<const char*> says;  ///< identifying texts; `--version` prints at least one of them
  const char* install;
  /// Signal that the runner forwards to the agents. They then terminate their ranks, giving them
  /// time to save their state, and exit with 0, because runners kill the remaining processes if one
  /// exits with a different code. Agents do not use the signal for anything else. To terminate
  /// srun, its input is closed instead.
  int end_signal;
  /// Environment variable with additional ssh arguments; null if there is none.
  const char* ssh_arguments;
};

const Known& known(Runner runner) {
  static const std::vector<Known> all{
      {Runner::openmpi,
       {"mpirun", "mpirun.openmpi"},
       {"Open MPI", "OpenRTE"},
       "Open MPI (Debian: openmpi-bin)",
       SIGALRM,
       nullptr},
      {Runner::mpich,
       {"mpiexec", "mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra"},
       {"HYDRA build details"},
       "MPICH (Debian: mpich)",
       SIGQUIT,
       "HYDRA_LAUNCHER_EXTRA_ARGS"},
      {Runner::impi,
       {"mpiexec.hydra", "mpiexec", "mpirun"},
       {"Intel(R) MPI"},
       "Intel MPI (PyPI: impi-rt)",
       SIGQUIT,
       "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"},
      {Runner::mvapich,
       {"mpiexec", "mpirun", "mpiexec.hydra"},
       {"HYDRA build details"},
       "MVAPICH",
       SIGQUIT,
       "HYDRA_LAUNCHER_EXTRA_ARGS"},
      {Runner::slurm,
       {"srun"},
       {"slurm"},
       "Slurm's client (Debian: slurm-client)",
       SIGINT,
       nullptr},
  };
  return *std::find_if(all.begin(), all.end(),
                       [&](const Known& one) { return one.runner == runner; });
}

/// Returns each host's name once per slot.
std::string host_of_each_rank(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts)
    for (std::size_t i = 0; i < host.slots.size(); ++i)
      out.append(out.empty() ? "" : ",").append(host.name);
  return out;
}

std::string counted_hosts(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts)
    out.append(out.empty() ? "" : ",")
        .append(host.name)
        .append(":")
        .append(std::to_string(host.slots.size()));
  return out;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// Returns options that make both ends of the connections between Open MPI's daemons detect a
/// broken network within `silence` seconds. They configure TCP keepalive, which by default takes 8
/// minutes to detect that. Returns an empty list if `silence` is 0 or the user has set keepalive
/// options.
Words keepalive(const Options& options, int silence) {
  constexpr const char* kTime = "oob_tcp_keepalive_time";
  constexpr int kProbes = 3;
  if (silence == 0 || options.runner_arguments.find("oob_tcp_keepalive") != std::string::npos ||
      env((std::string("OMPI_MCA_") + kTime).c_str()))
    return {};
  const int interval = std::max(silence / (2 * kProbes), 1);
  return {"--mca",
          kTime,
          std::to_string(std::max(silence - kProbes * interval, 1)),
          "--mca",
          "oob_tcp_keepalive_intvl",
          std::to_string(interval),
          "--mca",
          "oob_tcp_keepalive_probes",
          std::to_string(kProbes)};
}

/// Returns the runner's arguments. They place ranks in the order of the hosts and disable the
/// runner's own binding, because agents bind their ranks.
Words own_words(Runner runner, const Options& options, const JobInput& input,
                const std::string& count) {
  switch (runner) {
    case Runner::openmpi: {
      // Use `seq`, because other mappings put this machine first, regardless of the order of hosts.
      // `--quiet` suppresses a line for each forwarded signal.
      Words out{"--quiet",   "-np", count,       "--host", host_of_each_rank(input.hosts),
                "--map-by",  "seq", "--bind-to", "none",   "-x",
                kJobVariable};
      append(out, keepalive(options, silence_of_connections()));
      if (options.ssh_port)
        append(out, {"--mca", "plm_rsh_args", "-p " + std::to_string(*options.ssh_port)});
      return out;
    }
    case Runner::mvapich:
      return {"-genv",  "MV2_ENABLE_AFFINITY",      "0",  "-bind-to", "none",
              "-hosts", counted_hosts(input.hosts), "-n", count};
    case Runner::slurm: {
      Words out{"--nodes=" + std::to_string(input.hosts.size()), "--ntasks=" + count,
                "--cpu-bind=none",
                // Send the input to all nodes, because end-of-file on the input terminates the job.
                "--input=all", "--export=ALL"};
      // By default, Slurm orders hosts as in its configuration and distributes ranks evenly.
      // Override both.
      if (!input.own_slots)
        append(out, {"--nodelist=" + host_of_each_rank(input.hosts), "--distribution=arbitrary"});
      else if (const auto node = env("SLURMD_NODENAME"))
        out.push_back("--nodelist=" + *node);
      return out;
    }
    default: return {"-bind-to", "none", "-hosts", counted_hosts(input.hosts), "-n", count};
  }
}

}  // namespace

bool starts_each_rank(Runner runner) noexcept {
  return runner != Runner::ssh && runner != Runner::pdsh;
}

std::string usual_program(Runner runner) { return known(runner).programs.front(); }

std::string find_runner(Runner runner) {
  const auto& one = known(runner);
  // The version text of MVAPICH's Hydra does not mention MVAPICH, so also look for MVAPICH's
  // program mpiname.
  if (runner == Runner::mvapich && !find_program("mpiname")) return {};
  for (const char* name : one.programs) {
    if (!find_program(name)) continue;
    const auto text = output_of({name, "--version"}, StandardError::dropped).first;
    for (const char* says : one.says)
      if (text.find(says) != std::string::npos) return name;
  }
  return {};
}

void check_runner(const Options& options, const std::string& runner_program) {
  const auto& one = known(*options.runner);
  if (runner_program.empty()) {
    std::string names;
    for (const char* name : one.programs) names.append(names.empty() ? "" : ", ").append(name);
    throw Error(ErrorCode::not_found, kWhere,
                {.what = "the program for --launcher " + std::string(to_string(one.runner)) +
                         " was not found",
                 .got = "no matching " + names + " in PATH",
                 .hint = std::string("install ") + one.install + ", or add its folder to PATH"});
  }
  const auto words = split_words(options.runner_arguments);
  const bool allowed = (env("OMPI_ALLOW_RUN_AS_ROOT") && env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")) ||
                       std::find(words.begin(), words.end(), "--allow-run-as-root") != words.end();
  if (one.runner == Runner::openmpi && ::geteuid() == 0 && !allowed)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "Open MPI refuses to run as root",
                 .hint = "run as another user, or pass --launcher_args=--allow-run-as-root"});
}

Job runner_job(const Options& options, const JobInput& input, const std::string& program,
               const std::string& runner_program) {
  const auto& one = known(*options.runner);
  // Slurm's daemons forward srun's signals to all processes of a rank. Ranks would get each signal
  // twice, from Slurm and from the agent, so srun is terminated by closing its input.
  const bool by_input = one.runner == Runner::slurm;
  Job job{.input = by_input ? RankInput::held : RankInput::nothing, .own_group = by_input};
  job.end_signal = one.end_signal;
  job.hosts = static_cast<int>(input.hosts.size());
  job.accelerator = input.accelerator.traits.name;
  job.reason = input.accelerator.reason;
  job.master_addr = input.master_addr;
  job.master_port = input.master_port;
  for (const auto& host : input.hosts)
    job.rank_hosts.insert(job.rank_hosts.end(), host.slots.size(), host.name);
  job.world_size = static_cast<int>(job.rank_hosts.size());
  // Slurm may queue a job for an unlimited time, and reports unreachable hosts itself.
  if (one.runner != Runner::slurm) job.start_limit = silence_of_connections();

  JobRank rank{.host = runner_program};
  Words job_words{"--folder", std::filesystem::current_path().string()};
  for (const auto& [name, value] : passed_on(input))
    append(job_words, {"--set", assignment(name, value)});
  if (input.own_slots) job_words.emplace_back("--own_slots");
  if (!input.device_nodes.empty()) job_words.emplace_back("--slot_nodes");
  append(job_words, agent_options(options, input));
  set(rank.environment, kJobVariable, format_words(job_words));
  if (options.ssh_port && one.ssh_arguments != nullptr) {
    const auto before = env(one.ssh_arguments);
    set(rank.environment, one.ssh_arguments,
        (before ? *before + " " : "") + "-p " + std::to_string(*options.ssh_port));
  }
  if (options.ssh_port && one.runner == Runner::slurm)
    throw Error(ErrorCode::unsupported, kWhere,
                {.what = "--ssh_port cannot be used with --launcher slurm",
                 .hint = "omit it: srun does not use ssh"});

  const Words agent{program, "launch", "--rank_agent", to_string(one.runner)};
  rank.command = {runner_program};
  if (one.runner == Runner::impi) {
    // Intel MPI takes a separate set of arguments for each host.
    append(rank.command, {"-genv", "I_MPI_PIN", "0"});
    append(rank.command, split_words(options.runner_arguments));
    for (const auto& host : input.hosts) {
      if (&host != &input.hosts.front()) rank.command.emplace_back(":");
      append(rank.command, {"-n", std::to_string(host.slots.size()), "-host", host.name});
      append(rank.command, agent);
    }
  } else {
    append(rank.command, own_words(one.runner, options, input, std::to_string(job.world_size)));
    append(rank.command, split_words(options.runner_arguments));
    append(rank.command, agent);
  }
  job.ranks.push_back(std::move(rank));
  return job;
}

}  // namespace anyaccel::launch
