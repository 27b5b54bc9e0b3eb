#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/log.h"
#include "cli/front/front.h"
#include "launch/launch.h"
#include "launch/rank_agent.h"
#include "launch/run_job.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const launch::JobRank& rank) {
  Json environment = Json::object();
  for (const auto& [name, value] : rank.environment) environment[name] = value;
  return {{"rank", rank.rank},
          {"local_rank", rank.plan.local_rank},
          {"host", rank.host},
          {"device", rank.device},
          {"cores", rank.plan.cores},
          {"memory_nodes", rank.plan.memory_nodes},
          {"memory_policy", launch::to_string(rank.plan.policy)},
          {"env", environment},
          {"command", rank.command}};
}

Json to_json(const launch::Job& job) {
  Json ranks = Json::array();
  for (const auto& rank : job.ranks) ranks.push_back(to_json(rank));
  Json out{{"accelerator", job.accelerator},
           {"reason", job.reason},
           {"world_size", job.world_size},
           {"hosts", job.hosts},
           {"master_addr", job.master_addr},
           {"master_port", job.master_port},
           {"unset", job.unset},
           {"notes", job.notes},
           {"warnings", job.warnings},
           {"ranks", ranks}};
  if (!job.runner.empty()) {
    Json environment = Json::object();
    for (const auto& [name, value] : job.runner_environment) environment[name] = value;
    out["runner"] = {{"command", job.runner}, {"environment", environment}};
  }
  return out;
}

launch::Options parse(std::span<const char* const> arguments) {
  try {
    return launch::parse_options(arguments);
  } catch (const launch::OptionError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

int run_launch(std::span<const char* const> arguments) {
  auto options = parse(arguments);
  if (options.rank_agent) options = launch::rank_options(*options.rank_agent);
  if (options.help) return std::fputs(launch::options_help().c_str(), stdout), 0;
  if (options.log_level)
    set_log_level(*options.log_level);
  else if (!env("ANYACCEL_LOG_LEVEL"))
    set_log_level(LogLevel::info);
  const auto made = launch::make_launch(options, own_folder() + "/anyaccel");
  const auto& job = made.job;
  if (options.dry_run) {
    if (options.json)
      std::printf("%s\n", to_json(job).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    else
      std::fputs(launch::describe(job).c_str(), stdout);
    return 0;
  }
  // Other hosts may have programs that this host lacks.
  if (!made.remote) launch::check_program(options);
  for (const auto& warning : job.warnings) log(LogLevel::warning, "launch: " + warning);
  for (const auto& note : job.notes) log(LogLevel::info, "launch: " + note);
  if (!options.rank_agent)
    log(LogLevel::info, "launch: " + std::to_string(job.world_size) + " ranks on " +
                            std::to_string(job.hosts) + (job.hosts == 1 ? " host" : " hosts") +
                            ", accelerator " + job.accelerator + ", MASTER_ADDR " +
                            job.master_addr + ", MASTER_PORT " + std::to_string(job.master_port));
  launch::RunSettings settings{.agent = options.agent,
                               .ends_with = options.rank_agent
                                                ? launch::end_of_job(*options.rank_agent)
                                            : options.agent ? STDIN_FILENO
                                                            : -1,
                               .one_rank = options.rank_agent.has_value(),
                               .asked_by_end = options.rank_agent == launch::Runner::slurm,
                               .silence = options.silence,
                               .save_pid = options.save_pid};
  // The standard output of several ranks passes through this process, so that lines stay intact. An
  // MPI launcher interleaves the output of its agents, so an agent holds back the beginning of a
  // line until its end arrives.
  const bool several = options.rank_agent ? job.world_size > 1 : job.ranks.size() > 1;
  if (made.agents)
    settings.output = {
        .reports = true,
        .pipes = several || options.runner == launch::Runner::pdsh || options.prefix_output,
        .lines = options.prefix_output};
  else
    settings.output = {.prefix = options.prefix_output,
                       .log_folder = options.log_folder,
                       .pipes = several,
                       .end_lines = options.rank_agent.has_value()};
  return launch::run_job(job, settings);
}

}  // namespace anyaccel::cli
