// Binds op builders, scopes, and the native class from which accelerator/accelerator.py derives the
// class Accelerator.
#include <ATen/ops/empty.h>
#include <pybind11/functional.h>

#include <optional>
#include <string>
#include <string_view>

#include "anyaccel/sdk/backend.h"
#include "anyaccel/sdk/described_op.h"
#include "binding.h"
#include "device_argument.h"
#include "docstrings.h"

namespace anyaccel::python {

namespace {

/// Binds methods of the class Accelerator with their docstrings, which come from accelerator.h.
class Class {
 public:
  // pybind11 must not delete accelerators, which live until the process exits.
  using Bound = py::class_<Accelerator, std::unique_ptr<Accelerator, py::nodelete>>;
  explicit Class(Bound bound) : bound_(std::move(bound)) {}
  template <typename Function, typename... Extra>
  Class& def(const char* name, Function&& function, const Extra&... extra) {
    if constexpr (TakesIndex<std::decay_t<Function>>::value)
      bound_.def(name, accepting_devices(function), extra..., documentation(name));
    else
      bound_.def(name, std::forward<Function>(function), extra..., documentation(name));
    return *this;
  }

 private:
  static const char* documentation(std::string_view name) {
    for (const auto& [method, text] : docstrings)
      if (name == method) return text;
    return "";
  }
  Bound bound_;
};

py::arg_v index_argument() { return py::arg("device_index") = py::none(); }

/// Wraps a function that takes a seed, so that it accepts any Python integer. Negative seeds wrap
/// around, as in torch.manual_seed().
template <typename Function>
auto seeding(Function function) {
  using Self = std::conditional_t<std::is_same_v<Function, decltype(&Random::manual_seed)>, Random,
                                  Accelerator>;
  return [function](Self& self, const py::int_& seed) {
    const auto value = static_cast<std::uint64_t>(PyLong_AsUnsignedLongLongMask(seed.ptr()));
    const py::gil_scoped_release release;
    (self.*function)(value);
  };
}

void bind_kind(Class& c) {
  c.def("name", &Accelerator::name)
      .def("is_synchronized_device", &Accelerator::is_synchronized_device)
      .def("use_host_timers", &Accelerator::use_host_timers)
      .def("resolves_data_dependency", &Accelerator::resolves_data_dependency)
      .def("handles_memory_backpressure", &Accelerator::handles_memory_backpressure)
      .def("supports_nvtx_domain", &Accelerator::supports_nvtx_domain)
      .def("pin_memory_alignment", &Accelerator::pin_memory_alignment)
      .def("communication_backend_name", &Accelerator::communication_backend_name)
      .def("get_compile_backend", &Accelerator::get_compile_backend)
      .def("set_compile_backend", &Accelerator::set_compile_backend, py::arg("backend"))
      .def("op_builder_dir", &Accelerator::op_builder_dir)
      .def("build_extension", &Accelerator::build_extension)
      .def("export_envs", &Accelerator::export_envs)
      .def("visible_devices_envs", &Accelerator::visible_devices_envs)
      .def("set_visible_devices_envs",
           [](const Accelerator& self, const std::vector<std::string>& ids) {
             std::map<std::string, std::string> environment;
             self.set_visible_devices_envs(environment, ids);
             return environment;
           })
      .def("device_type",
           [](const Accelerator& self) { return c10::DeviceTypeName(self.device_type(), true); });
}

void bind_devices(Class& c) {
  c.def("is_available", &Accelerator::is_available)
      .def("device_name", &Accelerator::device_name, index_argument())
      .def(
          "device",
          [](Accelerator& self, const DeviceArgument& device) {
            return Scope<DeviceGuard>([&self, index = device.on(self)] {
              return std::make_unique<DeviceGuard>(self, index ? *index : self.current_device());
            });
          },
          index_argument())
      .def("torch_device", &Accelerator::torch_device, index_argument())
      .def(
          "set_device",
          [](Accelerator& self, const DeviceArgument& device) {
            // A device without an index is the current one.
            if (const auto index = device.on(self)) self.set_device(*index);
          },
          py::arg("device_index").none(false))
      .def("current_device", &Accelerator::current_device)
      .def("current_device_name", &Accelerator::current_device_name)
      .def("device_count", &Accelerator::device_count)
      .def("synchronize", &Accelerator::synchronize, index_argument(), NoGil())
      .def("device_properties", &Accelerator::device_properties, index_argument())
      .def("compute_capability", &Accelerator::compute_capability, index_argument())
      .def("on_accelerator", &Accelerator::on_accelerator, py::arg("tensor"))
      .def("is_bf16_supported", &Accelerator::is_bf16_supported)
      .def("is_fp16_supported", &Accelerator::is_fp16_supported)
      .def("is_fp64_supported", &Accelerator::is_fp64_supported)
      .def("supported_dtypes", &Accelerator::supported_dtypes)
      .def("dtype_support", &Accelerator::dtype_support, py::arg("dtype"), index_argument())
      .def("dtype_table", &Accelerator::dtype_table, index_argument())
      .def("is_triton_supported", &Accelerator::is_triton_supported)
      .def("prefer_triton_grouped_mm", &Accelerator::prefer_triton_grouped_mm)
      .def("lazy_call", &Accelerator::lazy_call, py::arg("callback"))
      .def("_is_initialized",
           [](const Accelerator& self) { return self.backend().is_initialized(); });
}

void bind_random(Class& c) {
  c.def("random", &Accelerator::random)
      .def("set_rng_state", &Accelerator::set_rng_state, py::arg("new_state"), index_argument(),
           NoGil())
      .def("get_rng_state", &Accelerator::get_rng_state, index_argument(), NoGil())
      .def("manual_seed", seeding(&Accelerator::manual_seed), py::arg("seed"))
      .def("manual_seed_all", seeding(&Accelerator::manual_seed_all), py::arg("seed"))
      .def("initial_seed", &Accelerator::initial_seed)
      .def("default_generator", &Accelerator::default_generator, index_argument());
}

void bind_work(Class& c) {
  c.def(
       "stream",
       [](Accelerator& self, const std::optional<Stream>& stream) {
         // None has no effect, as in torch.cuda.stream(None).
         return Scope<StreamGuard>([&self, stream] {
           return std::make_unique<StreamGuard>(self, stream ? *stream : self.current_stream());
         });
       },
       py::arg("stream"))
      .def("set_stream", &Accelerator::set_stream, py::arg("stream"))
      .def("current_stream", &Accelerator::current_stream, index_argument())
      .def("default_stream", &Accelerator::default_stream, index_argument())
      .def(
          "range_push",
          [](Accelerator& self, const std::string& message,
             const std::optional<std::string>& domain, const std::optional<std::string>& category) {
            self.range_push(message, domain.value_or(""), category.value_or(""));
          },
          py::arg("msg"), py::arg("domain") = py::none(), py::arg("category") = py::none())
      .def(
          "range_pop",
          [](Accelerator& self, const std::optional<std::string>& domain) {
            self.range_pop(domain.value_or(""));
          },
          py::arg("domain") = py::none())
      .def(
          "autocast",
          [](const Accelerator& self, c10::ScalarType dtype, bool enabled, bool cache_enabled) {
            return scope<Autocast>(self.device_type(), dtype, enabled, cache_enabled);
          },
          py::arg("dtype"), py::arg("enabled") = true, py::arg("cache_enabled") = true)
      .def("is_current_stream_capturing", &Accelerator::is_current_stream_capturing)
      .def("create_graph", &Accelerator::create_graph)
      .def(
          "capture_to_graph",
          [](Accelerator& self, const Graph& graph, std::optional<GraphPool> pool,
             std::optional<Stream> stream) {
            return Scope<GraphCapture>([&self, graph, pool, stream] {
              return std::make_unique<GraphCapture>(self, graph, pool, stream);
            });
          },
          py::arg("graph"), py::arg("pool") = py::none(), py::arg("stream") = py::none())
      .def("replay_graph", &Accelerator::replay_graph, py::arg("graph"), NoGil());
}

void bind_memory(Class& c) {
  c.def("empty_cache", &Accelerator::empty_cache, NoGil())
      .def("memory_allocated", &Accelerator::memory_allocated, index_argument())
      .def("max_memory_allocated", &Accelerator::max_memory_allocated, index_argument())
      .def("reset_max_memory_allocated", &Accelerator::reset_max_memory_allocated, index_argument())
      .def("memory_cached", &Accelerator::memory_cached, index_argument())
      .def("max_memory_cached", &Accelerator::max_memory_cached, index_argument())
      .def("reset_max_memory_cached", &Accelerator::reset_max_memory_cached, index_argument())
      .def("memory_stats", &Accelerator::memory_stats, index_argument())
      .def("allocator_stats", &Accelerator::allocator_stats, index_argument())
      .def("reset_peak_memory_stats", &Accelerator::reset_peak_memory_stats, index_argument())
      .def("memory_reserved", &Accelerator::memory_reserved, index_argument())
      .def("max_memory_reserved", &Accelerator::max_memory_reserved, index_argument())
      .def("total_memory", &Accelerator::total_memory, index_argument())
      .def("available_memory", &Accelerator::available_memory, index_argument())
      .def("memory_info", &Accelerator::memory_info, index_argument())
      .def("get_rss", &Accelerator::get_rss)
      .def("host_memory_stats", &Accelerator::host_memory_stats);
}

void bind_host_memory(Class& c) {
  c.def("pin_memory", &Accelerator::pin_memory, py::arg("tensor"), py::arg("make_copy") = true,
        py::arg("match_shape") = true, NoGil())
      .def(
          "pin_empty",
          [](Accelerator& self, c10::ScalarType dtype, const std::vector<std::int64_t>& shape) {
            return self.pin_empty(at::empty({0}, dtype), shape);
          },
          NoGil())
      .def("unpin_memory", &Accelerator::unpin_memory, py::arg("tensor"), NoGil())
      .def("is_pinned", &Accelerator::is_pinned, py::arg("tensor"))
      .def(
          "register_host_memory",
          [](Accelerator& self, std::uintptr_t address, std::int64_t num_bytes) {
            return self.register_host_memory(reinterpret_cast<void*>(address), num_bytes);
          },
          py::arg("address"), py::arg("num_bytes"), NoGil())
      .def(
          "unregister_host_memory",
          [](Accelerator& self, std::uintptr_t address) {
            self.unregister_host_memory(reinterpret_cast<void*>(address));
          },
          py::arg("address"), NoGil());
}

void bind_op_builders(py::module_& module) {
  using sdk::OpBuilder;
  py::class_<OpBuilder, std::shared_ptr<OpBuilder>>(module, "OpBuilder")
      .def(py::init([](const Accelerator& accelerator, const std::string& class_name) {
        return accelerator.create_op_builder(class_name);
      }))
      .def("__repr__",
           [](const py::object& self) {
             return "<anyaccel." + std::string(py::str(py::type::of(self).attr("__name__"))) +
                    " of the op " + std::string(py::repr(self.attr("name")())) + ">";
           })
      .def("class_name", &OpBuilder::class_name)
      .def("name", &OpBuilder::name)
      .def("compatibility",
           [](const OpBuilder& builder) {
             auto answer = [&] {
               const py::gil_scoped_release none;
               return builder.is_compatible();
             }();
             if (PyErr_Occurred() != nullptr) throw py::error_already_set();
             return answer;
           })
      .def("load", &OpBuilder::load, NoGil())
      .def("sources", &OpBuilder::sources)
      .def("include_paths", &OpBuilder::include_paths)
      .def("library", &sdk::library_of);
  module.def("make_described_builder", [](const std::string& text, const std::string& folder) {
    return sdk::make_described_builder(text, folder);
  });
}

}  // namespace

void bind_accelerator(py::module_& module) {
  bind_op_builders(module);
  bind_scope<Autocast>(module, "AutocastScope");
  bind_scope<DeviceGuard>(module, "DeviceScope");
  bind_scope<StreamGuard>(module, "StreamScope");
  bind_scope<RngGuard>(module, "RngScope");
  py::class_<Random>(module, "Random",
                     "The functions of torch.random, for the host and all devices at once.")
      .def("manual_seed", seeding(&Random::manual_seed), py::arg("seed"))
      .def("seed", &Random::seed, NoGil())
      .def("initial_seed", &Random::initial_seed)
      .def("get_rng_state", &Random::get_rng_state, NoGil())
      .def("set_rng_state", &Random::set_rng_state, py::arg("new_state"), NoGil())
      .def("fork_rng", [](const Random&) {
        return Scope<RngGuard>([] { return std::make_unique<RngGuard>(get_accelerator()); });
      });
  Class::Bound bound(module, "Accelerator");
  bound.def(py::init([] {
    // Starting a backend may call the vendor's Python code.
    const py::gil_scoped_release release;
    return std::unique_ptr<Accelerator, py::nodelete>(&get_accelerator());
  }));
  bound.def(py::init([](const std::string& name) {
    const py::gil_scoped_release release;
    return std::unique_ptr<Accelerator, py::nodelete>(&accelerator_of(name));
  }));
  // Creates an accelerator for a backend outside the registry, for users' classes. Like all
  // accelerators, it lives until the process exits.
  bound.def(py::init([](const std::shared_ptr<sdk::Backend>& backend) {
    return std::unique_ptr<Accelerator, py::nodelete>(new Accelerator(backend));
  }));
  Class accelerator(bound);
  bind_kind(accelerator);
  bind_devices(accelerator);
  bind_random(accelerator);
  bind_work(accelerator);
  bind_memory(accelerator);
  bind_host_memory(accelerator);
}

}  // namespace anyaccel::python
