#include "topology/topology.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "anyaccel/error.h"
#include "cli/front/front.h"
#include "cli/front/nodes_json.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Usage: anyaccel topology [--xml FILE] [--json]\n\n"
    "Show cores, NUMA nodes and memory that this process may use.\n\n"
    "Options:\n"
    "  -h, --help  Print this help and end\n"
    "  --xml FILE  Read a machine saved with `lstopo --of xml FILE` instead of this one\n"
    "  --json      Print one JSON object, for programs\n";

struct Options {
  std::string xml;
  bool json = false;
  bool help = false;
};

Options parse(std::span<const char* const> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--xml" && i + 1 < arguments.size()) {
      options.xml = arguments[++i];
    } else if (word.substr(0, 6) == "--xml=") {
      options.xml = word.substr(6);
    } else {
      throw UsageError(word == "--xml" ? "topology: --xml wants a file"
                                       : "topology: unknown option '" + std::string(word) + "'");
    }
  }
  return options;
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

}  // namespace

int run_topology(std::span<const char* const> arguments) {
  const Options options = parse(arguments);
  if (options.help) return std::fputs(kHelp, stdout), 0;
  const auto machine =
      options.xml.empty() ? topology::read_machine() : topology::read_machine(std::filesystem::path(options.xml));
  if (options.json)
    std::printf("%s\n", to_json(machine).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  else
    print_text(machine);
  return 0;
}

}  // namespace anyaccel::cli
