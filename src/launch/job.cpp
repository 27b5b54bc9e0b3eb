#include "launch/job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "anyaccel/error.h"
#include "base/program.h"
#include "launch/core_list.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kWhere = "launch";
constexpr const char* kThreads = "OMP_NUM_THREADS";
/// Environment variables that make OpenMP runtimes bind threads to specific CPUs. Such a binding
/// would override the launcher's, or fail because it names CPUs that the rank must not use.
constexpr const char* kOwnBinding[] = {"KMP_AFFINITY", "GOMP_CPU_AFFINITY"};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool contains(const Variables& variables, std::string_view name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&](const auto& one) { return one.first == name; });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out.append(out.empty() ? "" : ",").append(word);
  return out;
}

HostPlan plan_cores(const Options& options, const JobInput& input, std::size_t ranks) {
  PlanOptions plan;
  plan.ranks = static_cast<int>(ranks);
  plan.bind = options.bind_cores;
  plan.compute_on_cores = input.accelerator.on_cores;
  if (options.core_list) plan.core_list = parse_core_list(*options.core_list);
  plan.oversubscribe = options.oversubscribe;
  plan.reserve_cores = options.reserve_cores;
  plan.device_nodes = input.device_nodes;
  return plan_host(input.machine, plan);
}

Variables environment_of(const Options& options, const JobInput& input, const JobRank& rank,
                         const Job& job) {
  const auto& slots = input.hosts[input.host].slots;
  Variables out = input.file_variables;
  set(out, "RANK", std::to_string(rank.rank));
  set(out, "LOCAL_RANK", std::to_string(rank.plan.local_rank));
  set(out, "WORLD_SIZE", std::to_string(job.world_size));
  set(out, "LOCAL_WORLD_SIZE", std::to_string(slots.size()));
  set(out, "LOCAL_SIZE", std::to_string(slots.size()));
  set(out, "CROSS_RANK", std::to_string(input.host));
  set(out, "CROSS_SIZE", std::to_string(job.hosts));
  set(out, "MASTER_ADDR", job.master_addr);
  set(out, "MASTER_PORT", std::to_string(job.master_port));
  set(out, "DS_ACCELERATOR", job.accelerator);
  for (const auto& variable : input.accelerator.traits.visible_devices_envs)
    set(out, variable, joined(slots));
  const bool said =
      contains(input.set_variables, kThreads) || contains(input.file_variables, kThreads);
  if (options.bind_cores || !said) set(out, kThreads, std::to_string(rank.plan.threads));
  return out;
}

}  // namespace

std::vector<std::string> variables_that_matter() {
  return {kThreads, kOwnBinding[0], kOwnBinding[1]};
}

bool runs_in_python(const Options& options) {
  return options.module || (!options.no_python && options.program.ends_with(".py"));
}

std::vector<std::string> rank_command(const Options& options, const std::string& python,
                                      int local_rank) {
  std::vector<std::string> out;
  // A virtual environment's script changes PATH, so Python must be looked up after the script.
  if (!options.venv_script.empty())
    out = {"/bin/bash", "-c", R"(. "$0" && exec "$@")",
           std::filesystem::absolute(options.venv_script).string()};
  if (!runs_in_python(options)) {
    out.push_back(options.program);
  } else {
    if (python.empty() && options.venv_script.empty())
      throw Error(ErrorCode::not_found, kWhere,
                  {.what = "no Python was found to run " + options.program,
                   .got = "neither python3 nor python in PATH",
                   .hint = "install Python, or add its folder to PATH"});
    out.insert(out.end(), {options.venv_script.empty() ? python : "python", "-u"});
    if (options.module) out.emplace_back("-m");
    out.push_back(options.program);
    if (!options.no_local_rank) out.push_back("--local_rank=" + std::to_string(local_rank));
  }
  out.insert(out.end(), options.arguments.begin(), options.arguments.end());
  return out;
}

Job plan_job(const Options& options, const JobInput& input) {
  Job job;
  job.hosts = static_cast<int>(input.hosts.size());
  job.accelerator = input.accelerator.traits.name;
  job.reason = input.accelerator.reason;
  job.master_addr = input.master_addr;
  job.master_port = input.master_port;
  int first = 0;
  for (std::size_t i = 0; i < input.hosts.size(); ++i) {
    const int slots = static_cast<int>(input.hosts[i].slots.size());
    if (i < input.host) first += slots;
    job.world_size += slots;
  }
  const auto& host = input.hosts[input.host];
  auto plan = plan_cores(options, input, host.slots.size());
  job.notes = std::move(plan.notes);
  job.warnings = std::move(plan.warnings);
  if (options.bind_cores)
    for (const char* variable : kOwnBinding)
      if (contains(input.set_variables, variable) || contains(input.file_variables, variable)) {
        job.unset.emplace_back(variable);
        job.notes.push_back(
            std::string(variable) +
            " is not forwarded: it would bind threads to cores outside their rank's share");
      }
  for (std::size_t i = 0; i < host.slots.size(); ++i) {
    JobRank rank{.rank = first + static_cast<int>(i),
                 .host = host.name,
                 .device = host.slots[i],
                 .plan = plan.ranks.at(i)};
    rank.bound = options.bind_cores;
    rank.environment = environment_of(options, input, rank, job);
    std::erase_if(rank.environment,
                  [&](const auto& one) { return contains(job.unset, one.first); });
    rank.command = rank_command(options, input.python, rank.plan.local_rank);
    job.ranks.push_back(std::move(rank));
  }
  return job;
}

void check_program(const Options& options) {
  if (options.module) return;
  const bool python = runs_in_python(options);
  const auto path = python ? options.program : find_program(options.program).value_or("");
  if (path.empty()) {
    // The user may have named a file in the current folder without `./`, which works only for
    // Python.
    const bool here = ::access(options.program.c_str(), R_OK) == 0;
    // The program may be in a folder that the virtual environment's script adds to PATH.
    if (!options.venv_script.empty() && !here) return;
    throw Error(
        ErrorCode::not_found, kWhere,
        {.what = "the program '" + options.program + "' is not in PATH",
         .hint = here ? "write ./" + options.program + " to run the file in this folder" : ""});
  }
  if (::access(path.c_str(), F_OK) != 0)
    throw Error(ErrorCode::not_found, kWhere, {.what = "the file " + path + " does not exist"});
  if (std::filesystem::is_directory(path))
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = path + " is a folder, not a program"});
  if (!python && ::access(path.c_str(), X_OK) != 0)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = path + " is not executable",
                 .hint = "run `chmod +x` on it; for a Python program whose name does not end in "
                         ".py, write `python3 " +
                         path + "` or pass --module"});
}

}  // namespace anyaccel::launch
