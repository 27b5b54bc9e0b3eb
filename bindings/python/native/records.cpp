// Binds plain data: device properties, memory statistics, dtype support and detection results.
#include <string>

#include "binding.h"

namespace anyaccel::python {

namespace {

/// Binds a class with read-only fields and a repr that shows them.
template <typename T>
class Record {
 public:
  Record(py::module_& module, const char* name, const char* doc)
      : class_(module, name, doc), name_(name) {}
  ~Record() {
    class_.def("__repr__", [name = name_, fields = fields_](const py::object& self) {
      std::string text = name + "(";
      for (const auto& field : fields) {
        if (text.back() != '(') text += ", ";
        text += field + "=" + std::string(py::repr(self.attr(field.c_str())));
      }
      return text + ")";
    });
    class_.def("_repr_html_", [name = name_, fields = fields_](const py::object& self) {
      const auto escape = py::module_::import("html").attr("escape");
      std::string rows;
      for (const auto& field : fields)
        rows += "<tr><th>" + field + "</th><td>" +
                std::string(py::str(escape(py::str(self.attr(field.c_str()))))) + "</td></tr>";
      return "<table><caption>" + name + "</caption>" + rows + "</table>";
    });
    class_.def("__iter__", [fields = fields_](const py::object& self) {
      py::list values;
      for (const auto& field : fields) values.append(self.attr(field.c_str()));
      return py::iter(values);
    });
  }
  template <typename Field>
  Record& field(const char* name, Field T::*member) {
    class_.def_readonly(name, member);
    fields_.emplace_back(name);
    return *this;
  }

 private:
  py::class_<T> class_;
  std::string name_;
  std::vector<std::string> fields_;
};

}  // namespace

void bind_records(py::module_& module) {
  Record<MemoryInfo>(module, "MemoryInfo", "Free and total bytes of a device: (free, total).")
      .field("free", &MemoryInfo::free)
      .field("total", &MemoryInfo::total);
  Record<MemoryStat>(module, "MemoryStat", "A value and its peak since the last reset.")
      .field("current", &MemoryStat::current)
      .field("peak", &MemoryStat::peak);
  Record<MemoryStats>(module, "MemoryStats", "Allocator counters for one device.")
      .field("allocated_bytes", &MemoryStats::allocated_bytes)
      .field("reserved_bytes", &MemoryStats::reserved_bytes)
      .field("allocation_count", &MemoryStats::allocation_count)
      .field("num_alloc_retries", &MemoryStats::num_alloc_retries)
      .field("num_ooms", &MemoryStats::num_ooms);
  Record<HostMemoryStats>(module, "HostMemoryStats", "Statistics of pinned host memory.")
      .field("allocated_bytes", &HostMemoryStats::allocated_bytes)
      .field("reserved_bytes", &HostMemoryStats::reserved_bytes)
      .field("num_host_alloc", &HostMemoryStats::num_host_alloc)
      .field("num_host_free", &HostMemoryStats::num_host_free);
  Record<DeviceProperties>(
      module, "DeviceProperties",
      "Properties of one device. Unknown numbers are -1, unknown strings are empty.")
      .field("name", &DeviceProperties::name)
      .field("vendor", &DeviceProperties::vendor)
      .field("uuid", &DeviceProperties::uuid)
      .field("driver_version", &DeviceProperties::driver_version)
      .field("total_memory", &DeviceProperties::total_memory)
      .field("multi_processor_count", &DeviceProperties::multi_processor_count)
      .field("numa_node", &DeviceProperties::numa_node)
      .field("compute_capability", &DeviceProperties::compute_capability)
      .field("triton", &DeviceProperties::triton)
      .field("prefers_triton_grouped_mm", &DeviceProperties::prefers_triton_grouped_mm);
  Record<DtypeSupport>(module, "DtypeSupport", "A device's support for one dtype.")
      .field("storable", &DtypeSupport::storable)
      .field("computable", &DtypeSupport::computable)
      .field("fast", &DtypeSupport::fast)
      .field("reducible", &DtypeSupport::reducible);
  Record<DtypeRow>(module, "DtypeRow", "One row of dtype_table(): (dtype, support).")
      .field("dtype", &DtypeRow::dtype)
      .field("support", &DtypeRow::support);
  Record<BuildExtension>(module, "BuildExtensionNeeds",
                         "Folders, libraries and flags for building a C++ extension.")
      .field("include_dirs", &BuildExtension::include_dirs)
      .field("library_dirs", &BuildExtension::library_dirs)
      .field("libraries", &BuildExtension::libraries)
      .field("cxx_flags", &BuildExtension::cxx_flags)
      .field("torch_version", &BuildExtension::torch_version);
  Record<Compatibility>(module, "Compatibility",
                        "(compatible, reason). The reason is empty if compatible.")
      .field("compatible", &Compatibility::compatible)
      .field("reason", &Compatibility::reason);
  Record<BackendVerdict>(module, "BackendVerdict", "Detection result for one backend.")
      .field("name", &BackendVerdict::name)
      .field("available", &BackendVerdict::available)
      .field("device_count", &BackendVerdict::device_count)
      .field("reason", &BackendVerdict::reason);
  Record<Detection>(module, "Detection", "The accelerator that this process uses, with the reason.")
      .field("accelerator", &Detection::accelerator)
      .field("reason", &Detection::reason)
      .field("backends", &Detection::backends);
}

}  // namespace anyaccel::python
