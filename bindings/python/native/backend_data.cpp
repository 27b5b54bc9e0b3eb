// Converts data from Python backends: traits and function results.
#include <string>

#include "backend.h"

namespace anyaccel::python {

namespace {

/// Sets a field to the dict's value if the dict has the key.
template <typename T>
bool set(const std::string& key, const char* name, T& field, const py::handle& value) {
  if (key != name) return false;
  try {
    field = value.cast<T>();
  } catch (const py::cast_error&) {
    throw Error(ErrorCode::invalid_argument, "Backend",
                {.what = std::string("`") + name + "` has the wrong type", .got = py::repr(value)});
  }
  return true;
}

[[noreturn]] void fail_unknown_key(const std::string& what, const std::string& key) {
  throw Error(ErrorCode::invalid_argument, "Backend",
              {.what = "unknown field in " + what,
               .got = "'" + key + "'",
               .hint = "see docs/reference/python-backend.md"});
}

MemoryStat stat_from(const py::handle& given) {
  if (py::isinstance<py::int_>(given))
    return {given.cast<std::int64_t>(), given.cast<std::int64_t>()};
  const auto pair = given.cast<std::pair<std::int64_t, std::int64_t>>();
  return {pair.first, pair.second};
}

}  // namespace

sdk::Traits traits_from(const py::dict& given, sdk::Traits t) {
  for (const auto& [name, value] : given) {
    const auto key = name.cast<std::string>();
    const bool text =
        set(key, "name", t.name, value) || set(key, "class_name", t.class_name, value) ||
        set(key, "device_type", t.device_type, value) || set(key, "vendor", t.vendor, value) ||
        set(key, "communication_backend", t.communication_backend, value) ||
        set(key, "compile_backend", t.compile_backend, value) ||
        set(key, "op_builder_dir", t.op_builder_dir, value);
    const bool flag =
        text || set(key, "synchronized", t.synchronized, value) ||
        set(key, "use_host_timers", t.use_host_timers, value) ||
        set(key, "resolves_data_dependency", t.resolves_data_dependency, value) ||
        set(key, "handles_memory_backpressure", t.handles_memory_backpressure, value) ||
        set(key, "indexed_names", t.indexed_names, value) ||
        set(key, "supports_nvtx_domain", t.supports_nvtx_domain, value) ||
        set(key, "fp64", t.fp64, value) || set(key, "triton", t.triton, value) ||
        set(key, "priority", t.priority, value);
    const bool list = flag || set(key, "compile_backends", t.compile_backends, value) ||
                      set(key, "visible_devices_envs", t.visible_devices_envs, value) ||
                      set(key, "export_envs", t.export_envs, value);
    if (list) continue;
    if (key != "start_environment") fail_unknown_key("traits of a backend", key);
    t.start_environment.clear();
    for (const auto& one :
         value.cast<std::vector<std::tuple<std::string, std::string, std::string>>>())
      t.start_environment.push_back({std::get<0>(one), std::get<1>(one), std::get<2>(one)});
  }
  return t;
}

DeviceProperties properties_from(const py::object& given, DeviceProperties p) {
  if (!py::isinstance<py::dict>(given)) return given.cast<DeviceProperties>();
  for (const auto& [name, value] : given.cast<py::dict>()) {
    const auto key = name.cast<std::string>();
    if (!(set(key, "name", p.name, value) || set(key, "vendor", p.vendor, value) ||
          set(key, "uuid", p.uuid, value) || set(key, "driver_version", p.driver_version, value) ||
          set(key, "total_memory", p.total_memory, value) ||
          set(key, "multi_processor_count", p.multi_processor_count, value) ||
          set(key, "numa_node", p.numa_node, value) ||
          set(key, "compute_capability", p.compute_capability, value) ||
          set(key, "triton", p.triton, value) ||
          set(key, "prefers_triton_grouped_mm", p.prefers_triton_grouped_mm, value)))
      fail_unknown_key("device properties", key);
  }
  return p;
}

DtypeSupport support_from(const py::object& given) {
  if (py::isinstance<py::bool_>(given)) {
    const bool all = given.cast<bool>();
    return {all, all, all, all};
  }
  if (!py::isinstance<py::dict>(given)) return given.cast<DtypeSupport>();
  DtypeSupport s;
  for (const auto& [name, value] : given.cast<py::dict>()) {
    const auto key = name.cast<std::string>();
    if (!(set(key, "storable", s.storable, value) || set(key, "computable", s.computable, value) ||
          set(key, "fast", s.fast, value) || set(key, "reducible", s.reducible, value)))
      fail_unknown_key("dtype support", key);
  }
  return s;
}

MemoryInfo info_from(const py::object& given) {
  if (py::isinstance<MemoryInfo>(given)) return given.cast<MemoryInfo>();
  const auto pair = given.cast<std::pair<std::int64_t, std::int64_t>>();
  return {pair.first, pair.second};
}

MemoryStats stats_from(const py::object& given) {
  MemoryStats s;
  for (const auto& [name, value] : given.cast<py::dict>()) {
    const auto key = name.cast<std::string>();
    if (key == "allocated_bytes") {
      s.allocated_bytes = stat_from(value);
    } else if (key == "reserved_bytes") {
      s.reserved_bytes = stat_from(value);
    } else if (key == "allocation_count") {
      s.allocation_count = stat_from(value);
    } else if (!set(key, "num_alloc_retries", s.num_alloc_retries, value) &&
               !set(key, "num_ooms", s.num_ooms, value)) {
      fail_unknown_key("memory statistics", key);
    }
  }
  return s;
}

py::dict stats_to(const MemoryStats& stats) {
  const auto pair = [](const MemoryStat& stat) { return py::make_tuple(stat.current, stat.peak); };
  py::dict out;
  out["allocated_bytes"] = pair(stats.allocated_bytes);
  out["reserved_bytes"] = pair(stats.reserved_bytes);
  out["allocation_count"] = pair(stats.allocation_count);
  out["num_alloc_retries"] = stats.num_alloc_retries;
  out["num_ooms"] = stats.num_ooms;
  return out;
}

}  // namespace anyaccel::python
