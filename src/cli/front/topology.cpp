#include "topology/topology.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/nodes_json.h"
#include "cli/front/parser.h"
#include "launch/core_list.h"
#include "launch/picture.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TopologyOptions {
  std::string xml, picture, plan_ranks, core_list;
  int reserve_cores = 0;
  bool oversubscribe = false, json = false;

  /// Returns nullopt if none of the plan's options is given. Without --plan-ranks, the number of
  /// ranks is the launcher's default.
  std::optional<launch::PlanOptions> plan() const {
    if (plan_ranks.empty() && core_list.empty() && reserve_cores == 0 && !oversubscribe)
      return std::nullopt;
    launch::PlanOptions out;
    if (!plan_ranks.empty() && plan_ranks != "auto")
      CLI::detail::lexical_cast(plan_ranks, out.ranks);
    if (!core_list.empty()) out.core_list = launch::parse_core_list(core_list);
    out.reserve_cores = reserve_cores;
    out.oversubscribe = oversubscribe;
    return out;
  }
};

/// Returns an error message if the text is neither "auto" nor a number of ranks; otherwise empty.
std::string check_ranks(const std::string& text) {
  int ranks = 0;
  if (text == "auto" || (CLI::detail::lexical_cast(text, ranks) && ranks >= 0)) return {};
  return "expected a number of ranks or auto, got " + quoted_text(text);
}

void add_options(CLI::App& app, TopologyOptions& options) {
  app.add_option(
         "--topology,--xml", options.xml,
         "Show the machine whose topology was saved with `lstopo --of xml FILE`, not this one")
      ->type_name("FILE");
  app.add_flag("--json", options.json, "Print machine-readable output (one JSON object)");
  app.add_option("-o,--output", options.picture, "Draw the machine to FILE, an .svg or .png file")
      ->type_name("FILE");
  app.add_option("--plan-ranks", options.plan_ranks,
                 "Plan N ranks; auto: one per NUMA node with cores")
      ->type_name("N|auto")
      ->check(check_ranks);
  app.add_option("--bind-core-list", options.core_list,
                 "CPUs that ranks may use, such as 0-51,56-107 or 0-31:2")
      ->type_name("LIST");
  app.add_option("--reserve-cores", options.reserve_cores, "Number of cores to keep free of ranks")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--oversubscribe", options.oversubscribe, "Allow more than four ranks per core");
}

Json to_json(const launch::HostPlan& plan) {
  Json ranks = Json::array();
  for (const auto& rank : plan.ranks)
    ranks.push_back({{"local_rank", rank.local_rank},
                     {"cores", rank.cores},
                     {"memory_nodes", rank.memory_nodes},
                     {"memory_policy", launch::to_string(rank.policy)},
                     {"threads", rank.threads},
                     {"reserved", rank.reserved}});
  return {{"ranks", ranks},
          {"reserved", plan.reserved},
          {"notes", plan.notes},
          {"warnings", plan.warnings}};
}

Json to_json(const topology::Machine& machine) {
  Json cores = Json::array();
  for (const auto& core : machine.cores)
    cores.push_back({{"package", core.package}, {"node", core.node}, {"cpus", core.cpus}});
  return {{"cpu_model", machine.cpu_model},
          {"cpu_vendor", machine.cpu_vendor},
          {"packages", topology::package_count(machine)},
          {"cpus", topology::format_cpu_list(machine.cpus())},
          {"nodes", nodes_json(machine)},
          {"cores", cores}};
}

void print_text(const topology::Machine& machine) {
  std::printf("%s\npackages %d, cores %zu, CPUs %zu: %s\n",
              machine.cpu_model.empty() ? "unknown CPU" : machine.cpu_model.c_str(),
              topology::package_count(machine), machine.cores.size(), machine.cpus().size(),
              topology::format_cpu_list(machine.cpus()).c_str());
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    const auto& node = machine.nodes[i];
    std::printf("NUMA node %-3d %-6s %8.1f GiB  %3zu cores  CPUs %s\n", node.os_index,
                topology::to_string(node.kind), static_cast<double>(node.memory) / (1 << 30),
                topology::cores_of_node(machine, static_cast<int>(i)).size(),
                node.cpus.empty() ? "none" : topology::format_cpu_list(node.cpus).c_str());
  }
}

void print_text(const launch::HostPlan& plan) {
  for (const auto& rank : plan.ranks) {
    std::printf("rank %-3d CPUs %s, threads %d", rank.local_rank,
                topology::format_cpu_list(rank.cores).c_str(), rank.threads);
    if (rank.policy != launch::MemoryPolicy::none)
      std::printf(", memory %s %s", launch::to_string(rank.policy),
                  topology::format_cpu_list(rank.memory_nodes).c_str());
    std::printf("\n");
  }
  if (!plan.reserved.empty())
    std::printf("reserved CPUs %s\n", topology::format_cpu_list(plan.reserved).c_str());
  for (const auto& note : plan.notes) std::printf("%s\n", note.c_str());
  for (const auto& warning : plan.warnings) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace

int run_topology(std::span<const char* const> arguments) {
  TopologyOptions options;
  const auto app = make_parser(
      "topology",
      "Show the cores, NUMA nodes and memory that this process may use, as text, JSON or a "
      "picture, and how `anyaccel launch` would assign them to ranks");
  add_options(*app, options);
  if (const auto code = parse_words(*app, arguments)) return *code;
  const auto machine = options.xml.empty()
                           ? topology::read_machine()
                           : topology::read_machine(std::filesystem::path(options.xml));
  std::optional<launch::HostPlan> plan;
  if (const auto wanted = options.plan()) plan = launch::plan_host(machine, *wanted);
  if (!options.picture.empty()) {
    launch::write_picture(launch::draw(machine, plan ? &*plan : nullptr), options.picture);
    if (!options.json) return 0;
  }
  if (options.json) {
    auto json = to_json(machine);
    if (plan) json["plan"] = to_json(*plan);
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    print_text(machine);
    if (plan) print_text(*plan);
  }
  return 0;
}

}  // namespace anyaccel::cli
