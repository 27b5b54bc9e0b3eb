#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "anyaccel/anyaccel.h"
#include "anyaccel/communication.h"
#include "anyaccel/plugins.h"
#include "anyaccel/sdk/backend.h"
#include "anyaccel/version.h"
#include "cli/commands/report/report.h"
#include "cli/front/nodes_json.h"
#include "topology/memory_limit.h"
#include "topology/topology.h"

namespace anyaccel::cli {
namespace {

/// Adds the exception's text to "problems", once for all devices and functions with the same text.
void add_problem(Json& report, const std::exception& error) {
  auto& problems = report["problems"];
  const Json text = error.what();
  if (std::find(problems.begin(), problems.end(), text) == problems.end()) problems.push_back(text);
}

/// Sets `section[key]` to the result of `question`. If `question` throws, the value is null and the
/// message is added to "problems".
template <typename Question>
void ask(Json& report, Json& section, const char* key, Question question) {
  try {
    section[key] = question();
  } catch (const std::exception& error) {
    section[key] = nullptr;
    add_problem(report, error);
  }
}

std::string torch_version_in_use() {
  const std::uint64_t abi = aoti_torch_abi_version();
  return std::to_string(abi >> 56) + "." + std::to_string((abi >> 48) & 0xff) + "." +
         std::to_string((abi >> 40) & 0xff);
}

/// Device type that LibTorch was built for, even if there is no device; null for CPU builds.
Json torch_accelerator() {
  const auto type = at::accelerator::getAccelerator();
  return type ? Json(c10::DeviceTypeName(*type, /*lower_case=*/true)) : Json(nullptr);
}

Json versions() {
#if defined(__clang__)
  constexpr const char* kCompiler = "Clang " __clang_version__;
#else
  constexpr const char* kCompiler = "GCC " __VERSION__;
#endif
  Json out{{"anyaccel", ANYACCEL_VERSION},
           {"libtorch", torch_version_in_use()},
           {"libtorch_built_with", TORCH_VERSION},
           {"libtorch_accelerator", torch_accelerator()},
           {"compiler", kCompiler}};
  utsname system{};
  if (::uname(&system) == 0)
    out["system"] = std::string(system.sysname) + " " + system.release + " " + system.machine;
  return out;
}

Json backends(const Detection& found) {
  Json out = Json::array();
  for (const BackendVerdict& verdict : found.backends)
    out.push_back({{"name", verdict.name},
                   {"verdict", verdict.available ? "available" : "unavailable"},
                   {"reason", verdict.reason},
                   {"device_count", verdict.device_count}});
  return out;
}

Json plugin_list() {
  Json out = Json::array();
  for (const PluginVerdict& plugin : plugins())
    out.push_back({{"name", plugin.name},
                   {"verdict", to_string(plugin.state)},
                   {"reason", plugin.reason},
                   {"path", plugin.path},
                   {"library", plugin.library}});
  return out;
}

Json number_or_null(std::int64_t value) { return value < 0 ? Json(nullptr) : Json(value); }

Json dtypes(const Accelerator& accelerator, DeviceIndex index) {
  Json out = Json::object();
  for (const auto& [dtype, support] : accelerator.dtype_table(index))
    out[dtype_name(dtype)] = {{"storable", support.storable},
                              {"computable", support.computable},
                              {"fast", support.fast},
                              {"reducible", support.reducible}};
  return out;
}

Json device(Json& report, const Accelerator& accelerator, DeviceIndex index) {
  Json out{{"index", index}};
  try {
    const DeviceProperties properties = accelerator.device_properties(index);
    out["name"] = properties.name;
    out["vendor"] = properties.vendor;
    out["uuid"] = properties.uuid;
    out["driver_version"] = properties.driver_version;
    out["multi_processor_count"] = number_or_null(properties.multi_processor_count);
    out["numa_node"] = number_or_null(properties.numa_node);
    out["capability"] = nullptr;
    if (const auto pair = properties.compute_capability)
      out["capability"] = {pair->first, pair->second};
  } catch (const std::exception& error) {
    add_problem(report, error);
  }
  ask(report, out, "total_memory", [&] { return accelerator.total_memory(index); });
  ask(report, out, "available_memory", [&] { return accelerator.available_memory(index); });
  ask(report, out, "dtypes", [&] { return dtypes(accelerator, index); });
  return out;
}

bool starts_with_one_of(const std::string& name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes)
    if (!prefix.empty() && name.compare(0, prefix.size(), prefix) == 0) return true;
  return false;
}

/// Environment variables that are set and affect AnyAccel or LibTorch.
Json environment(const Accelerator* accelerator) {
  std::vector<std::string> prefixes{
      "ANYACCEL_",       "DS_",        "OMP_",       "KMP_",
      "GOMP_",           "MKL_",       "DNNL_",      "ONEDNN_",
      "ATEN_",           "TORCH",      "PYTORCH_",   "LD_PRELOAD",
      "LD_LIBRARY_PATH", "LOCAL_RANK", "LOCAL_SIZE", "LOCAL_WORLD_SIZE",
      "WORLD_SIZE",      "CCL_",       "MALLOC_"};
  if (accelerator != nullptr) {
    for (const std::string& name : accelerator->export_envs()) prefixes.push_back(name);
    for (const std::string& name : accelerator->visible_devices_envs()) prefixes.push_back(name);
    for (const auto& setting : accelerator->backend().traits().start_environment)
      prefixes.push_back(setting.name);
  }
  std::set<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (starts_with_one_of(*entry, prefixes)) lines.insert(*entry);
  Json out = Json::object();
  for (const std::string& line : lines)
    if (const auto equals = line.find('='); equals != std::string::npos)
      out[line.substr(0, equals)] = line.substr(equals + 1);
  return out;
}

Json start_environment(const Accelerator& accelerator) {
  Json out = Json::array();
  for (const auto& setting : accelerator.backend().traits().start_environment)
    out.push_back({{"name", setting.name}, {"value", setting.value}, {"reason", setting.reason}});
  return out;
}

Json limit(__rlimit_resource resource) {
  rlimit value{};
  if (::getrlimit(resource, &value) != 0 || value.rlim_cur == RLIM_INFINITY) return nullptr;
  return value.rlim_cur;
}

Json process_memory(Json& report, const Accelerator* accelerator) {
  Json out = Json::object();
  if (accelerator != nullptr) ask(report, out, "rss", [&] { return accelerator->get_rss(); });
  out["limits"] = {{"address_space", limit(RLIMIT_AS)},
                   {"data", limit(RLIMIT_DATA)},
                   {"locked", limit(RLIMIT_MEMLOCK)},
                   {"stack", limit(RLIMIT_STACK)}};
  const topology::MemoryAmount group = topology::control_group_memory();
  out["limits"]["control_group"] = nullptr;
  if (group.total != topology::MemoryAmount::unlimited)
    out["limits"]["control_group"] = group.total;
  return out;
}

Json machine() {
  const topology::Machine& machine = topology::this_machine();
  return {{"cpu_model", machine.cpu_model},
          {"packages", topology::package_count(machine)},
          {"cores", machine.cores.size()},
          {"cpus", topology::format_cpu_list(machine.cpus())},
          {"nodes", nodes_json(machine)}};
}

/// The shared memory that ranks on one host use to exchange data.
Json shared_memory() {
  constexpr const char* kPath = "/dev/shm";
  Json out{{"path", kPath}, {"total", nullptr}, {"free", nullptr}};
  struct statvfs info {};
  if (::statvfs(kPath, &info) == 0) {
    out["total"] = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
    out["free"] = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }
  return out;
}

Json op_builders(const Accelerator& accelerator) {
  Json out = Json::array();
  for (const std::string& name : sdk::registered_op_builders(accelerator.name())) {
    const Compatibility answer = accelerator.create_op_builder(name)->is_compatible();
    out.push_back(
        {{"class_name", name}, {"compatible", answer.compatible}, {"reason", answer.reason}});
  }
  return out;
}

/// Returns null if no accelerator can be selected; `detection()` then contains the reason.
Accelerator* try_accelerator() {
  try {
    return &get_accelerator();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

Json collect_report() {
  Accelerator* accelerator = try_accelerator();
  const Detection found = detection();
  Json report{{"accelerator", nullptr},
              {"reason", found.reason},
              {"backends", backends(found)},
              {"versions", versions()}};
  report["plugins"] = plugin_list();
  report["problems"] = Json::array();
  if (accelerator != nullptr) {
    report["accelerator"] = accelerator->name();
    report["devices"] = Json::array();
    for (DeviceIndex i = 0; i < accelerator->device_count(); ++i)
      report["devices"].push_back(device(report, *accelerator, i));
    ask(report, report, "communication_backend",
        [&] { return accelerator->communication_backend_name(); });
    ask(report, report, "communication_backend_reason",
        [] { return communication_backend_reason(); });
    ask(report, report, "compile_backend", [&] { return accelerator->get_compile_backend(); });
    report["start_environment"] = start_environment(*accelerator);
    ask(report, report, "op_builders", [&] { return op_builders(*accelerator); });
  }
  report["host"] = {{"instruction_set", at::get_cpu_capability()},
                    {"threads", at::get_num_threads()}};
  report["topology"] = machine();
  report["memory"] = process_memory(report, accelerator);
  report["shared_memory"] = shared_memory();
  report["environment"] = environment(accelerator);
  return report;
}

}  // namespace anyaccel::cli
