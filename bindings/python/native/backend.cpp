// A backend implemented by a Python object. Functions that the object's class overrides are called
// in Python, with the GIL held. All others are called on the underlying native backend.
#include "backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <type_traits>

#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::python {

namespace {

std::atomic<bool> ended{false};

/// The functions in sdk/backend.h that a Python class can override.
constexpr std::array slots{
    "device_count",   "current_device", "set_device",           "synchronize",
    "is_initialized", "properties",     "dtype_support",        "default_generator",
    "current_stream", "set_stream",     "default_stream",       "new_stream",
    "new_event",      "memory_stats",   "memory_info",          "reset_peak_memory_stats",
    "empty_cache",    "new_graph",      "create_op_builder",    "is_current_stream_capturing",
    "range_push",     "range_pop",      "register_host_memory", "unregister_host_memory",
    "host_allocator"};

constexpr std::size_t slot(std::string_view name) {
  std::size_t place = 0;
  while (slots[place] != name) ++place;
  return place;
}

/// Returns `below`, the underlying backend, if it has a device with this index. The Python class
/// may count more devices, and `below` does not check the index.
const std::shared_ptr<sdk::Backend>& at(const std::shared_ptr<sdk::Backend>& below,
                                        DeviceIndex index) {
  const auto count = below->device_count();
  if (index >= 0 && index < count) return below;
  throw Error(ErrorCode::invalid_argument, below->traits().name,
              {.what = "device index out of range for the base backend",
               .got = std::to_string(index),
               .want = "below " + std::to_string(count),
               .hint = "override this function for devices that the base backend lacks"});
}

class PythonBackend final : public sdk::Backend {
 public:
  PythonBackend(sdk::Traits traits, std::shared_ptr<sdk::Backend> below, py::object object,
                const std::vector<std::string>& given)
      : Backend(std::move(traits)), below_(std::move(below)), object_(std::move(object)) {
    for (const auto& name : given) {
      const auto place = std::find(slots.begin(), slots.end(), name);
      if (place != slots.end()) given_[static_cast<std::size_t>(place - slots.begin())] = true;
    }
  }

  DeviceIndex device_count() const noexcept override try {
    return call<slot("device_count")>(take<int>, [&] { return below_->device_count(); });
  } catch (const std::exception&) {  // the probe reports the reason
    return 0;
  }
  DeviceIndex current_device() const override {
    return call<slot("current_device")>(take<int>, [&] { return below_->current_device(); });
  }
  void set_device(DeviceIndex index) override {
    call<slot("set_device")>(
        take_nothing, [&] { at(below_, index)->set_device(index); }, index);
  }
  void synchronize(DeviceIndex index) override {
    call<slot("synchronize")>(
        take_nothing, [&] { at(below_, index)->synchronize(index); }, index);
  }
  bool is_initialized() const noexcept override try {
    return call<slot("is_initialized")>(take<bool>, [&] { return below_->is_initialized(); });
  } catch (const std::exception&) {
    return false;
  }
  DeviceProperties properties(DeviceIndex index) const override {
    const auto known = Backend::properties(index);
    return call<slot("properties")>(
        [&](const py::object& made) { return properties_from(made, known); },
        [&] { return at(below_, index)->properties(index); }, index);
  }
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override {
    return call<slot("dtype_support")>(
        support_from, [&] { return at(below_, index)->dtype_support(index, dtype); }, index, dtype);
  }

  at::Generator default_generator(DeviceIndex index) const override {
    return call<slot("default_generator")>(
        take<at::Generator>, [&] { return at(below_, index)->default_generator(index); }, index);
  }

  Stream current_stream(DeviceIndex index) const override {
    return call<slot("current_stream")>(
        take<Stream>, [&] { return at(below_, index)->current_stream(index); }, index);
  }
  void set_stream(const Stream& stream) override {
    call<slot("set_stream")>(
        take_nothing, [&] { below_->set_stream(stream); }, stream);
  }
  Stream default_stream(DeviceIndex index) const override {
    return call<slot("default_stream")>(
        take<Stream>, [&] { return at(below_, index)->default_stream(index); }, index);
  }
  Stream new_stream(DeviceIndex index, int priority) override {
    return call<slot("new_stream")>(
        take<Stream>, [&] { return at(below_, index)->new_stream(index, priority); }, index,
        priority);
  }
  std::shared_ptr<sdk::EventImpl> new_event(DeviceIndex index, bool timing) override {
    return call<slot("new_event")>(
        [&](const py::object& made) { return event_from(made, traits().name); },
        [&] { return at(below_, index)->new_event(index, timing); }, index, timing);
  }

  MemoryStats memory_stats(DeviceIndex index) const override {
    return call<slot("memory_stats")>(
        stats_from, [&] { return at(below_, index)->memory_stats(index); }, index);
  }
  MemoryInfo memory_info(DeviceIndex index) const override {
    return call<slot("memory_info")>(
        info_from, [&] { return at(below_, index)->memory_info(index); }, index);
  }
  void reset_peak_memory_stats(DeviceIndex index) override {
    call<slot("reset_peak_memory_stats")>(
        take_nothing, [&] { at(below_, index)->reset_peak_memory_stats(index); }, index);
  }
  void empty_cache() override {
    call<slot("empty_cache")>(take_nothing, [&] { below_->empty_cache(); });
  }
  c10::Allocator* host_allocator() const override {
    if (!given_[slot("host_allocator")]) return below_->host_allocator();
    if (auto* const known = host_allocator_.load(std::memory_order_acquire)) return *known;
    return call<slot("host_allocator")>(
        [this](const py::object& made) {
          // The GIL is held. If several threads called the class, the first result is kept.
          auto* known = host_allocator_.load(std::memory_order_acquire);
          if (known == nullptr) {
            known = new c10::Allocator*(host_allocator_from(made, traits().name));
            host_allocator_.store(known, std::memory_order_release);
          }
          return *known;
        },
        [this] { return below_->host_allocator(); });
  }
  bool register_host_memory(void* address, std::size_t bytes) override {
    return call<slot("register_host_memory")>(
        take<bool>, [&] { return below_->register_host_memory(address, bytes); },
        reinterpret_cast<std::uintptr_t>(address), bytes);
  }
  void unregister_host_memory(void* address) override {
    call<slot("unregister_host_memory")>(
        take_nothing, [&] { below_->unregister_host_memory(address); },
        reinterpret_cast<std::uintptr_t>(address));
  }

  std::shared_ptr<sdk::GraphImpl> new_graph() override {
    return call<slot("new_graph")>(
        [&](const py::object& made) { return graph_from(made, traits().name); },
        [&] { return below_->new_graph(); });
  }
  bool is_current_stream_capturing() const override {
    return call<slot("is_current_stream_capturing")>(
        take<bool>, [&] { return below_->is_current_stream_capturing(); });
  }

  std::shared_ptr<sdk::OpBuilder> create_op_builder(const std::string& class_name) override {
    // A Python builder calls this function to get the builder that it replaces. The result must not
    // be the Python builder itself.
    static thread_local bool asking = false;
    std::shared_ptr<sdk::OpBuilder> made;
    if (!asking) {
      asking = true;
      struct Reset {
        ~Reset() { asking = false; }
      } const reset;
      made = call<slot("create_op_builder")>(
          [&](const py::object& builder) { return builder_from(builder, class_name); },
          [] { return std::shared_ptr<sdk::OpBuilder>(); }, class_name);
    }
    if (!made) made = Backend::create_op_builder(class_name);
    return made ? made : below_->create_op_builder(class_name);
  }

  void range_push(const std::string& message, const std::string& domain,
                  const std::string& category) override {
    call<slot("range_push")>(
        take_nothing, [&] { below_->range_push(message, domain, category); }, message, domain,
        category);
  }
  void range_pop(const std::string& domain) override {
    call<slot("range_pop")>(
        take_nothing, [&] { below_->range_pop(domain); }, domain);
  }

 private:
  /// Calls the Python class if it overrides the slot and the interpreter is still running;
  /// otherwise, calls the underlying backend.
  template <std::size_t number, typename Take, typename Below, typename... Arguments>
  std::invoke_result_t<Below&> call(Take&& take, Below&& below,
                                    const Arguments&... arguments) const {
    if (!given_[number] || !python_runs()) return below();
    return ask(object_, traits().name + "." + slots[number], slots[number], take, arguments...);
  }

  std::shared_ptr<sdk::Backend> below_;
  std::array<bool, slots.size()> given_{};
  Kept object_;
  /// The result of the class's host_allocator(), or null before the first call. A backend and its
  /// allocator live until the process exits.
  mutable std::atomic<c10::Allocator**> host_allocator_{nullptr};
};

/// Converts a Python function, which returns a device count or (device count, reason), to a probe.
std::function<sdk::Probe()> probe_from(py::object function, const std::string& name) {
  auto kept = std::make_shared<Kept>(std::move(function));
  return [kept, name] {
    return ask(*kept, name + ".probe", "__call__", [](const py::object& answer) {
      if (!py::isinstance<py::int_>(answer)) {
        const auto pair = answer.cast<std::pair<int, std::string>>();
        return sdk::Probe{pair.first, pair.second};
      }
      const int count = answer.cast<int>();
      return sdk::Probe{count, count > 0 ? "its Python probe returned " + std::to_string(count)
                                         : "its Python probe found no device"};
    });
  };
}

void register_python_backend(const py::dict& traits, const std::string& base,
                             const py::object& make, const py::object& probe) {
  BackendEntry entry;
  if (!base.empty()) {
    const py::gil_scoped_release release;  // backend finders may need the GIL
    entry = registered_backend(base);
  }
  const auto given = base.empty() ? sdk::Traits{.class_name = {}} : entry.traits;
  entry.traits = traits_from(traits, given);
  if (!probe.is_none()) {
    entry.traits.probe = nullptr;  // `probe` replaces it
    entry.probe = probe_from(probe, entry.traits.name);
  } else if (base.empty()) {
    entry.probe = [known = entry.traits] { return sdk::probe_torch_device(known); };
  }
  auto kept = std::make_shared<Kept>(make);
  entry.create = [kept, name = entry.traits.name] {
    return ask(*kept, name, "__call__", take<std::shared_ptr<sdk::Backend>>);
  };
  const py::gil_scoped_release release;
  register_backend(std::move(entry));
}

}  // namespace

bool python_runs() noexcept {
  return !ended.load(std::memory_order_acquire) && Py_IsInitialized() != 0;
}

Kept::~Kept() {
  if (!object_ || !python_runs()) return;
  const py::gil_scoped_acquire gil;
  object_.dec_ref();
}

void throw_python_error(py::error_already_set& error, const std::string& where) {
  if (!error.matches(PyExc_Exception)) {
    // A signal handler or the program raised SystemExit or KeyboardInterrupt, which must propagate
    // to the Python caller.
    error.restore();
    throw Error(ErrorCode::interrupted, where,
                {.what = "Python raised an exception that does not derive from Exception"});
  }
  const auto module = py::module_::import("anyaccel.errors");
  const auto [code, place, text] =
      module.attr("parts_of")(error.value()).cast<std::tuple<int, std::string, std::string>>();
  throw Error(static_cast<ErrorCode>(code), place.empty() ? where : place, {.what = text});
}

void bind_backends(py::module_& module) {
  using sdk::Backend;
  bind_backend_parts(module);
  BackendBelow bound(module, "BackendBelow");
  bind_host_memory_below(module, bound);
  bound.def("at", &at)
      .def("device_count", &Backend::device_count, NoGil())
      .def("current_device", &Backend::current_device, NoGil())
      .def("set_device", &Backend::set_device, NoGil())
      .def("synchronize", &Backend::synchronize, NoGil())
      .def("is_initialized", &Backend::is_initialized, NoGil())
      .def("properties", &Backend::properties, NoGil())
      .def("dtype_support", &Backend::dtype_support, NoGil())
      .def("default_generator", &Backend::default_generator, NoGil())
      .def("current_stream", &Backend::current_stream, NoGil())
      .def("set_stream", &Backend::set_stream, NoGil())
      .def("default_stream", &Backend::default_stream, NoGil())
      .def("new_stream", &Backend::new_stream, NoGil())
      .def("new_event", &Backend::new_event, NoGil())
      .def("memory_stats",
           [](const Backend& self, int index) { return stats_to(self.memory_stats(index)); })
      .def("memory_info", &Backend::memory_info, NoGil())
      .def("reset_peak_memory_stats", &Backend::reset_peak_memory_stats, NoGil())
      .def("empty_cache", &Backend::empty_cache, NoGil())
      .def("new_graph", &Backend::new_graph, NoGil())
      .def("is_current_stream_capturing", &Backend::is_current_stream_capturing, NoGil())
      .def("range_push", &Backend::range_push, NoGil())
      .def("range_pop", &Backend::range_pop, NoGil());
  module.attr("backend_slots") = py::cast(std::vector<std::string>(slots.begin(), slots.end()));
  module.def("register_backend", &register_python_backend);
  module.def(
      "make_registered_backend",
      [](const std::string& name) { return registered_backend(name).create(); }, NoGil());
  module.def("make_torch_backend", [](const py::dict& traits) -> std::shared_ptr<Backend> {
    auto read = traits_from(traits, {.class_name = {}});
    const py::gil_scoped_release release;
    return std::make_shared<sdk::TorchBackend>(std::move(read));
  });
  module.def("make_python_backend",
             [](const std::shared_ptr<Backend>& below, const py::dict& traits, py::object object,
                const std::vector<std::string>& given) -> std::shared_ptr<Backend> {
               return std::make_shared<PythonBackend>(traits_from(traits, below->traits()), below,
                                                      std::move(object), given);
             });
  module.def("add_backend_finder", [](py::object find) {
    auto kept = std::make_shared<Kept>(std::move(find));
    add_backend_finder([kept] { ask(*kept, "anyaccel.backends", "__call__", take_nothing); });
  });
  module.def("python_ends", [] { ended.store(true, std::memory_order_release); });
}

}  // namespace anyaccel::python
