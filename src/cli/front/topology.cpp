#include "topology/topology.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/nodes_json.h"
#include "launch/core_list.h"
#include "launch/picture.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Usage: anyaccel topology [OPTION]...\n\n"
    "Show the cores, NUMA nodes and memory that this process may use, as text, JSON or a picture, and how\n"
    "`anyaccel launch` would assign them to ranks.\n\n"
    "Options:\n"
    "  -h, --help             Print this help and exit\n"
    "  --topology FILE        Use a machine saved with `lstopo --of xml FILE` instead of this one (also --xml)\n"
    "  --json                 Print one JSON object, for programs\n"
    "  --output, -o FILE      Write a picture; the name ends in .svg or .png\n"
    "  --plan-ranks N|auto    Plan N ranks, or one per NUMA node with cores\n"
    "  --bind-core-list LIST  The ranks' CPUs, such as 0-51,56-107 or 0-31:2\n"
    "  --reserve-cores N      Number of cores to keep free of ranks\n"
    "  --oversubscribe        Allow more than four ranks per core\n";

struct Options {
  std::string xml;
  std::string picture;
  launch::PlanOptions plan;
  bool planned = false;
  bool json = false;
  bool help = false;
};

int number(const std::string& option, const std::string& text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0)
    throw UsageError("topology: " + option + " requires a number, got " + quoted_text(text));
  return value;
}

Options parse(std::span<const char* const> arguments) {
  Options options;
  bool wants_plan = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    const auto equals = word.find('=');
    const std::string name = with_dashes(word.substr(0, equals));
    const auto value = [&]() -> std::string {
      if (equals != std::string::npos) return word.substr(equals + 1);
      if (i + 1 < arguments.size()) return arguments[++i];
      throw UsageError("topology: " + name + " requires a value");
    };
    if (name == "--xml" || name == "--topology") {
      options.xml = value();
    } else if (name == "-o" || name == "--output") {
      options.picture = value();
    } else if (name == "--plan-ranks") {
      const auto text = value();
      options.plan.ranks = text == "auto" ? 0 : number(name, text);
      options.planned = true;
    } else if (name == "--bind-core-list") {
      options.plan.core_list = launch::parse_core_list(value());
      wants_plan = true;
    } else if (name == "--reserve-cores") {
      options.plan.reserve_cores = number(name, value());
      wants_plan = true;
    } else if (equals == std::string::npos && name == "--oversubscribe") {
      options.plan.oversubscribe = wants_plan = true;
    } else if (equals == std::string::npos && name == "--json") {
      options.json = true;
    } else if (equals == std::string::npos && (name == "-h" || name == "--help")) {
      options.help = true;
    } else {
      unknown_option("topology", word, kHelp);
    }
  }
  // Without a number of ranks it is the default's plan.
  options.planned = options.planned || wants_plan;
  return options;
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
  return {{"ranks", ranks}, {"reserved", plan.reserved}, {"notes", plan.notes}, {"warnings", plan.warnings}};
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
              machine.cpu_model.empty() ? "unknown CPU" : machine.cpu_model.c_str(), topology::package_count(machine),
              machine.cores.size(), machine.cpus().size(), topology::format_cpu_list(machine.cpus()).c_str());
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    const auto& node = machine.nodes[i];
    std::printf("NUMA node %-3d %-6s %8.1f GiB  %3zu cores  CPUs %s\n", node.os_index, topology::to_string(node.kind),
                static_cast<double>(node.memory) / (1 << 30),
                topology::cores_of_node(machine, static_cast<int>(i)).size(),
                node.cpus.empty() ? "none" : topology::format_cpu_list(node.cpus).c_str());
  }
}

void print_text(const launch::HostPlan& plan) {
  for (const auto& rank : plan.ranks) {
    std::printf("rank %-3d CPUs %s, threads %d", rank.local_rank, topology::format_cpu_list(rank.cores).c_str(),
                rank.threads);
    if (rank.policy != launch::MemoryPolicy::none)
      std::printf(", memory %s %s", launch::to_string(rank.policy),
                  topology::format_cpu_list(rank.memory_nodes).c_str());
    std::printf("\n");
  }
  if (!plan.reserved.empty()) std::printf("reserved CPUs %s\n", topology::format_cpu_list(plan.reserved).c_str());
  for (const auto& note : plan.notes) std::printf("%s\n", note.c_str());
  for (const auto& warning : plan.warnings) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace

int run_topology(std::span<const char* const> arguments) {
  const Options options = parse(arguments);
  if (options.help) return std::fputs(kHelp, stdout), 0;
  const auto machine =
      options.xml.empty() ? topology::read_machine() : topology::read_machine(std::filesystem::path(options.xml));
  std::optional<launch::HostPlan> plan;
  if (options.planned) plan = launch::plan_host(machine, options.plan);
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
