// Reads the machine without hwloc: one node with the CPUs that this process may use.
#include <unistd.h>

#include <utility>

#include "anyaccel/error.h"
#include "base/file.h"
#include "topology/arm_processor.h"
#include "topology/topology.h"

namespace anyaccel::topology {

namespace {

/// Returns the value of the first line "key : value" in a text such as /proc/cpuinfo.
std::string field(const std::string& text, const std::string& key) {
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text.compare(at, key.size(), key) == 0) {
      const auto begin = text.find_first_not_of(" \t:", at + key.size());
      return text.substr(begin, text.find('\n', begin) - begin);
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  return {};
}

}  // namespace

Machine read_machine() {
  Machine machine;
  const auto cpuinfo = try_read_file("/proc/cpuinfo").value_or("");
  machine.cpu_model = field(cpuinfo, "model name");
  machine.cpu_vendor = field(cpuinfo, "vendor_id");
  if (machine.cpu_model.empty()) {
    auto arm = arm_processor(field(cpuinfo, "CPU implementer"), field(cpuinfo, "CPU part"));
    machine.cpu_vendor = std::move(arm.vendor);
    machine.cpu_model = std::move(arm.model);
  }
  NumaNode node;
  node.memory = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  node.near_cpus = allowed_cpus();
  for (const int cpu : node.near_cpus) {
    // Add each core once, with all of its threads, when its first thread is found.
    const auto path =
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
    const auto text = try_read_file(path);
    const auto siblings = text ? intersect(parse_cpu_list(*text), node.near_cpus) : CpuList{cpu};
    if (siblings.empty() || siblings.front() == cpu)
      machine.cores.push_back(
          {.package = 0, .node = 0, .cpus = siblings.empty() ? CpuList{cpu} : siblings});
  }
  machine.nodes.push_back(std::move(node));
  assign_cores(machine);
  return machine;
}

Machine read_machine(const std::filesystem::path& xml_file) {
  throw Error(ErrorCode::unsupported, "topology",
              {.what = "cannot read the saved topology " + xml_file.string() +
                       ": AnyAccel was built without hwloc",
               .hint = "rebuild AnyAccel without ANYACCEL_MINIMAL"});
}

}  // namespace anyaccel::topology
