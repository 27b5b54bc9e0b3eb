#include "launch/launch.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/program.h"
#include "base/shell.h"
#include "launch/core_list.h"
#include "launch/output.h"
#include "launch/runner.h"
#include "launch/ssh.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kWhere = "launch";
/// The default port of DeepSpeed and torch. Used for jobs on several hosts, which must all choose
/// the same port without communicating.
constexpr int kUsualPort = 29500;
constexpr const char* kThisHost = "localhost";

/// Reads the host file; returns nullopt if there is none.
std::optional<std::vector<Host>> read_hosts(const Options& options) {
  const auto path = options.host_file.value_or(kDefaultHostFile);
  if (!options.host_file && !std::filesystem::is_regular_file(path)) return std::nullopt;
  return parse_host_file(read_input(path), path);
}

std::vector<std::string> own_slots(const Options& options, const JobInput& input) {
  if (input.accelerator.on_cores) {
    PlanOptions plan;
    if (options.core_list) plan.core_list = parse_core_list(*options.core_list);
    return numbered_slots(default_ranks(input.machine, plan));
  }
  // If the devices cannot be counted, use the number given by the user.
  if (!input.accelerator.devices && options.num_accelerators && *options.num_accelerators <= 4096 &&
      input.accelerator.traits.visible_devices_envs.empty())
    return numbered_slots(*options.num_accelerators);
  return visible_slots(input.accelerator);
}

/// Returns the NUMA nodes that slots refer to, for an accelerator that computes on the host's
/// cores. Each slot is the index of a NUMA node with cores, so a rank on a selected slot runs on
/// that node.
std::vector<int> nodes_of_slots(const topology::Machine& machine,
                                const std::vector<std::string>& slots) {
  const auto nodes = topology::numa_nodes_with_cores(machine);
  std::vector<int> out;
  for (const auto& slot : slots) {
    const auto index = static_cast<std::size_t>(std::atoi(slot.c_str()));
    out.push_back(
        index < nodes.size() ? machine.nodes[static_cast<std::size_t>(nodes[index])].os_index : -1);
  }
  return out;
}

bool uses_runner(const Options& options) {
  return options.runner && starts_each_rank(*options.runner) && !options.no_ssh;
}

/// Sets `input.host`. Returns true if the job uses other hosts.
bool choose_host(const Options& options, JobInput& input) {
  if (options.no_ssh) {
    if (!options.node_rank || static_cast<std::size_t>(*options.node_rank) >= input.hosts.size())
      throw Error(ErrorCode::invalid_argument, kWhere,
                  {.what = "--no_ssh requires the index of this host",
                   .got = options.node_rank ? "--node_rank " + std::to_string(*options.node_rank)
                                            : "no --node_rank",
                   .want = "--node_rank from 0 to " + std::to_string(input.hosts.size() - 1)});
    input.host = static_cast<std::size_t>(*options.node_rank);
    return false;
  }
  if (uses_runner(options)) return !input.own_slots;
  return input.hosts.size() > 1 || options.force_multi;
}

/// True if the host file and the options allow ranks on other hosts. DS_ACCELERATOR may then name
/// an accelerator that only those hosts have.
bool may_be_remote(const Options& options, const std::optional<std::vector<Host>>& hosts) {
  return !options.no_ssh &&
         (options.force_multi || (hosts && (hosts->size() > 1 || uses_runner(options))));
}

/// Combines the plans of all hosts. Each plan uses this machine's topology, because the topology of
/// the other hosts is unknown.
Job plan_all_hosts(Options options, JobInput input) {
  options.oversubscribe = true;
  Job out;
  for (input.host = 0; input.host < input.hosts.size(); ++input.host) {
    auto job = plan_job(options, input);
    std::move(job.ranks.begin(), job.ranks.end(), std::back_inserter(out.ranks));
    job.ranks = std::move(out.ranks);
    out = std::move(job);
  }
  if (input.hosts.size() > 1)
    out.notes.emplace_back(
        "each host plans with its own topology and devices; this plan uses this machine's topology "
        "and devices");
  return out;
}

/// Reduces a job to the single rank that this rank agent runs.
void keep_rank(Job& job, int local_rank) {
  job.ranks = {job.ranks.at(static_cast<std::size_t>(local_rank))};
  job.own_group = true;
  // The report is needed because not all runners terminate the other ranks when an agent is killed.
  job.last_words = format_report({job.ranks.front().rank, SIGKILL});
  // Report a host's notes and warnings only once.
  if (local_rank > 0) job.notes.clear(), job.warnings.clear();
}

/// Throws if other hosts cannot use the name of the first host as its address. With an MPI or Slurm
/// launcher, the first host is not queried for its address, so its name must work on all hosts.
void check_address(const Options& options, const JobInput& input) {
  const auto& first = input.hosts.front().name;
  if (!options.master_addr.empty() || input.hosts.size() == 1 ||
      (first != kThisHost && !first.starts_with("127.")))
    return;
  throw Error(ErrorCode::invalid_argument, kWhere,
              {.what = "other hosts cannot reach the first host by this name",
               .got = "'" + first + "'",
               .hint = "pass --master_addr, or use a name in the host file that all hosts can "
                       "resolve"});
}

void show_runner(Job& job, const Options& options, const JobInput& input,
                 const std::string& program) {
  const auto found = find_runner(*options.runner);
  auto runner =
      runner_job(options, input, program, found.empty() ? usual_program(*options.runner) : found);
  job.runner = std::move(runner.ranks.front().command);
  job.runner_environment = std::move(runner.ranks.front().environment);
  if (found.empty())
    job.notes.push_back("--launcher " + std::string(to_string(*options.runner)) +
                        " is not in PATH on this host");
}

}  // namespace

int free_port() {
  for (const int family : {AF_INET6, AF_INET}) {
    const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6;
    four.sin_family = AF_INET;
    auto* address =
        family == AF_INET6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    socklen_t length = family == AF_INET6 ? sizeof six : sizeof four;
    const bool bound =
        ::bind(socket, address, length) == 0 && ::getsockname(socket, address, &length) == 0;
    ::close(socket);
    if (bound) return ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
  }
  throw Error(ErrorCode::unavailable, kWhere,
              {.what = std::string("no free port was found: ") + std::strerror(errno),
               .hint = "pass one with --master_port"});
}

Launch make_launch(const Options& options, const std::string& program) {
  JobInput input;
  // An agent does not read these files: its launcher has read them and passed their variables on.
  if (!options.agent) input.file_variables = environment_files();
  auto named = env("DS_ACCELERATOR");
  for (const auto& [name, value] : input.file_variables)
    if (!named && name == "DS_ACCELERATOR") named = value;
  auto hosts = options.world.empty() ? read_hosts(options) : parse_hosts(options.world);
  const bool from_file = hosts.has_value() && !options.own_slots;
  input.own_slots = !from_file;
  input.accelerator = find_accelerator(named, may_be_remote(options, hosts));
  input.machine = options.topology_file
                      ? topology::read_machine(std::filesystem::path(*options.topology_file))
                      : topology::this_machine();
  const bool cores = input.accelerator.on_cores;

  if (!hosts) hosts = {{kThisHost, own_slots(options, input)}};
  if (from_file && input.accelerator.traits.visible_devices_envs.empty())
    check_numbered(*hosts, input.accelerator.traits.name);
  input.hosts = filter_hosts(std::move(*hosts), options.include, options.exclude);
  if (options.num_nodes) input.hosts = first_hosts(std::move(input.hosts), *options.num_nodes);
  if (options.num_accelerators) {
    const auto fewer = !cores ? FewerSlots::fail
                       : from_file && !options.oversubscribe
                           ? FewerSlots::fail_unless_oversubscribed
                           : FewerSlots::add;
    input.hosts = slots_of_each(std::move(input.hosts), *options.num_accelerators, fewer);
  }
  const bool remote = choose_host(options, input);
  auto& slots = input.hosts[input.host].slots;
  if (cores && !from_file &&
      (options.slot_nodes || !(options.include.empty() && options.exclude.empty())))
    input.device_nodes = nodes_of_slots(input.machine, slots);
  if (!cores && from_file && !remote) slots = visible_names(input.accelerator, slots);

  const bool alone = input.hosts.size() == 1 && !remote;
  const bool runner = uses_runner(options);
  input.master_addr = !options.master_addr.empty()
                          ? options.master_addr
                          : (alone ? "127.0.0.1" : input.hosts.front().name);
  input.master_port =
      options.master_port ? *options.master_port : (alone ? free_port() : kUsualPort);
  for (const char* name : {"python3", "python"})
    if (input.python.empty()) input.python = find_program(name).value_or("");
  for (const auto& name : variables_that_matter())
    if (env(name.c_str())) input.set_variables.push_back(name);
  if (!remote && !runner) {
    Launch out{.job = plan_job(options, input)};
    if (options.agent) out.job.input = RankInput::nothing;
    if (options.local_rank) keep_rank(out.job, *options.local_rank);
    return out;
  }
  if (runner) check_address(options, input);
  if (options.dry_run) {
    Launch out{.job = remote ? plan_all_hosts(options, input) : plan_job(options, input),
               .remote = remote};
    if (runner) show_runner(out.job, options, input, program);
    return out;
  }
  if (runner) {
    const auto runner_program = find_runner(*options.runner);
    check_runner(options, runner_program);
    if (!remote) plan_job(options, input);  // report errors once instead of in each rank
    return {.job = runner_job(options, input, program, runner_program),
            .remote = remote,
            .agents = true};
  }
  if (options.master_addr.empty() || !options.no_ssh_check) {
    input.master_addr = address_of(options, input.hosts.front().name);
  }
  return {.job = ssh_job(options, input, program), .remote = true, .agents = true};
}

std::string describe(const Job& job) {
  const auto counted = [](std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  std::string out = counted(job.ranks.size(), "rank") + ", " + std::to_string(job.world_size) +
                    " on " + counted(static_cast<std::size_t>(job.hosts), "host") +
                    ", accelerator " + job.accelerator + " (" + job.reason + ")\nMASTER_ADDR " +
                    job.master_addr + ", MASTER_PORT " + std::to_string(job.master_port) + "\n";
  for (const auto& rank : job.ranks) {
    out += "rank " + std::to_string(rank.rank) + ": " + rank.host + ", local rank " +
           std::to_string(rank.plan.local_rank) + ", device " + rank.device + ", ";
    out += rank.bound ? "CPUs " + topology::format_cpu_list(rank.plan.cores)
                      : std::string("not bound");
    if (rank.bound && rank.plan.policy != MemoryPolicy::none)
      out += ", memory " + std::string(to_string(rank.plan.policy)) + " " +
             topology::format_cpu_list(
                 topology::CpuList(rank.plan.memory_nodes.begin(), rank.plan.memory_nodes.end()));
    std::vector<std::string> environment;
    for (const auto& [name, value] : rank.environment)
      environment.push_back(assignment(name, value));
    out += "\n  environment: " + shell_quoted(environment) +
           "\n  command: " + shell_quoted(rank.command) + "\n";
  }
  if (!job.runner.empty()) {
    std::vector<std::string> environment;
    for (const auto& [name, value] : job.runner_environment)
      environment.push_back(assignment(name, value));
    out += "started by: " + shell_quoted(job.runner) +
           "\n  environment: " + shell_quoted(environment) + "\n";
  }
  for (const auto& name : job.unset) out += "not forwarded: " + name + "\n";
  for (const auto& note : job.notes) out += "note: " + note + "\n";
  for (const auto& warning : job.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace anyaccel::launch
