#include "backend.h"

#include <ATen/core/Generator.h>

namespace anyaccel::deepspeed {

namespace {

class PythonEvent final : public sdk::EventImpl {
 public:
  explicit PythonEvent(py::object event) : event_(new py::object(std::move(event))) {}
  void record(const Stream& stream) override { call("record", stream.unwrap()); }
  void wait(const Stream& stream) override { call("wait", stream.unwrap()); }
  bool query() const override {
    return in_python("Event.query()",
                     [&] { return answer<bool>(event_->attr("query")(), "Event.query()"); });
  }
  void synchronize() const override { call("synchronize"); }
  double elapsed_time(const sdk::EventImpl& end) const override {
    const auto& other = *static_cast<const PythonEvent&>(end).event_;
    return in_python("Event.elapsed_time()",
                     [&] { return event_->attr("elapsed_time")(other).cast<double>(); });
  }

 private:
  template <typename... A>
  void call(const char* name, const A&... arguments) const {
    in_python(name, [&] { event_->attr(name)(arguments...); });
  }
  py::object* event_;  // never freed: the last owner may be a thread that does not hold the GIL
};

/// Uses graphs in the same way as DeepSpeed. If create_graph() returns None, None is passed to the
/// accelerator's other graph functions, as in DeepSpeed.
class PythonGraph final : public sdk::GraphImpl {
 public:
  explicit PythonGraph(const py::object& accelerator) : accelerator_(accelerator) {
    in_python("create_graph()",
              [&] { graph_ = new py::object(accelerator_.attr("create_graph")()); });
  }
  void capture_begin(std::optional<GraphPool>) override {
    in_python("capture_to_graph()", [&] {
      scope_ = new py::object(accelerator_.attr("capture_to_graph")(*graph_));
      scope_->attr("__enter__")();
    });
  }
  void capture_end() override {
    in_python("capture_to_graph()",
              [&] { scope_->attr("__exit__")(py::none(), py::none(), py::none()); });
    scope_ = nullptr;
  }
  void replay() override {
    in_python("replay_graph()", [&] { accelerator_.attr("replay_graph")(*graph_); });
  }
  void reset() override {
    if (scope_ != nullptr) capture_end();
    in_python("create_graph()", [&] { *graph_ = accelerator_.attr("create_graph")(); });
  }

 private:
  const py::object& accelerator_;
  py::object *graph_ = nullptr, *scope_ = nullptr;
};

class PythonBuilder final : public sdk::OpBuilder {
 public:
  PythonBuilder(py::object builder, std::string class_name)
      : builder_(new py::object(std::move(builder))), class_name_(std::move(class_name)) {}
  std::string class_name() const override { return class_name_; }
  std::string name() const override {
    return in_python("NAME", [&] { return builder_->attr("NAME").cast<std::string>(); });
  }
  Compatibility is_compatible() const noexcept override try {
    return in_python("is_compatible()", [&] {
      return Compatibility{builder_->attr("is_compatible")().cast<bool>(), ""};
    });
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
  void load() override {
    in_python("load()", [&] { builder_->attr("load")(); });
  }

 private:
  py::object* builder_;
  std::string class_name_;
};

class PythonBackend final : public sdk::Backend {
 public:
  PythonBackend(const py::object& accelerator, sdk::Traits traits)
      : Backend(std::move(traits)), accelerator_(*new py::object(accelerator)) {}

  DeviceIndex device_count() const noexcept override try {
    return ask<int>("device_count");
  } catch (const std::exception&) {
    return 0;
  }
  DeviceIndex current_device() const override { return ask<int>("current_device"); }
  void set_device(DeviceIndex index) override { tell("set_device", index); }
  void synchronize(DeviceIndex index) override { tell("synchronize", index); }
  DeviceProperties properties(DeviceIndex index) const override {
    auto properties = Backend::properties(index);
    properties.name = ask<std::string>("device_name", index);
    properties.total_memory = ask<std::int64_t>("total_memory", index);
    return properties;
  }
  /// DeepSpeed reports only floating-point types. For other types, the SDK's defaults apply.
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override {
    auto support = Backend::dtype_support(index, dtype);
    if (dtype == c10::kHalf) support.computable = ask<bool>("is_fp16_supported");
    if (dtype == c10::kBFloat16) support.computable = ask<bool>("is_bf16_supported");
    if (dtype == c10::kDouble) support.computable = traits_.fp64;
    support.fast = support.fast && support.computable;
    return support;
  }

  at::Generator default_generator(DeviceIndex index) const override {
    return ask<at::Generator>("default_generator", index);
  }

  Stream current_stream(DeviceIndex index) const override {
    return {ask<c10::Stream>("current_stream", index), index};
  }
  Stream default_stream(DeviceIndex index) const override {
    return {ask<c10::Stream>("default_stream", index), index};
  }
  void set_stream(const Stream& stream) override {
    // DeepSpeed's interface sets a stream only through a context manager, which is entered here and
    // never exited.
    in_python("stream()",
              [&] { accelerator_.attr("stream")(stream.unwrap()).attr("__enter__")(); });
  }
  Stream new_stream(DeviceIndex index, int priority) override {
    return in_python("Stream", [&]() -> Stream {
      using namespace py::literals;
      const py::object made = class_named("Stream")("device"_a = index, "priority"_a = priority);
      return {answer<c10::Stream>(made, "Stream()"), index};
    });
  }
  std::shared_ptr<sdk::EventImpl> new_event(DeviceIndex, bool enable_timing) override {
    return in_python("Event", [&]() -> std::shared_ptr<sdk::EventImpl> {
      using namespace py::literals;
      return std::make_shared<PythonEvent>(class_named("Event")("enable_timing"_a = enable_timing));
    });
  }

  MemoryStats memory_stats(DeviceIndex index) const override {
    const auto bytes = [&](const char* name) { return ask<std::int64_t>(name, index); };
    MemoryStats stats;
    stats.allocated_bytes = {bytes("memory_allocated"), bytes("max_memory_allocated")};
    stats.reserved_bytes = {bytes("memory_reserved"), bytes("max_memory_reserved")};
    in_python("memory_stats()", [&] {
      const py::dict all = accelerator_.attr("memory_stats")(index);
      const auto number = [&](const char* key) {
        return all.contains(key) ? all[key].cast<std::int64_t>() : 0;
      };
      stats.allocation_count = {number("allocation.all.current"), number("allocation.all.peak")};
      stats.num_ooms = number("num_ooms");
    });
    return stats;
  }
  MemoryInfo memory_info(DeviceIndex index) const override {
    return {ask<std::int64_t>("available_memory", index), ask<std::int64_t>("total_memory", index)};
  }
  void reset_peak_memory_stats(DeviceIndex index) override {
    tell("reset_peak_memory_stats", index);
  }
  void empty_cache() override { tell("empty_cache"); }

  std::shared_ptr<sdk::GraphImpl> new_graph() override {
    return std::make_shared<PythonGraph>(accelerator_);
  }

  std::shared_ptr<sdk::OpBuilder> create_op_builder(const std::string& class_name) override {
    if (auto ours = Backend::create_op_builder(class_name)) return ours;  // registered by the kit
    return in_python("create_op_builder()", [&]() -> std::shared_ptr<sdk::OpBuilder> {
      auto builder = accelerator_.attr("create_op_builder")(class_name);
      if (builder.is_none()) return nullptr;
      const auto made = py::type::of(builder).attr("__name__").cast<std::string>();
      return std::make_shared<PythonBuilder>(std::move(builder), made);
    });
  }

  void range_push(const std::string& message, const std::string&, const std::string&) override {
    tell("range_push", message);
  }
  void range_pop(const std::string&) override { tell("range_pop"); }

 private:
  template <typename T, typename... A>
  T ask(const char* name, const A&... arguments) const {
    const std::string what = std::string(name) + "()";
    return in_python(what, [&] { return answer<T>(accelerator_.attr(name)(arguments...), what); });
  }
  template <typename... A>
  void tell(const char* name, const A&... arguments) {
    in_python(std::string(name) + "()", [&] { accelerator_.attr(name)(arguments...); });
  }
  /// Returns one of the accelerator's classes, such as Stream. Some accelerators return None for a
  /// class that they lack.
  py::object class_named(const char* name) const {
    py::object found = accelerator_.attr(name);
    if (found.is_none()) throw std::runtime_error(std::string(name) + " is None");
    return found;
  }

  const py::object& accelerator_;
};

std::vector<std::string> strings(const py::object& list) {
  return list.cast<std::vector<std::string>>();
}

}  // namespace

sdk::Traits traits_of(const py::object& accelerator, const std::string& name) {
  const auto says = [&](const char* method) { return accelerator.attr(method)(); };
  sdk::Traits traits;
  traits.name = name;
  traits.class_name = py::type::of(accelerator).attr("__name__").cast<std::string>();
  traits.device_type = says("device_name").cast<std::string>();
  traits.communication_backend = says("communication_backend_name").cast<std::string>();
  traits.compile_backend = says("get_compile_backend").cast<std::string>();
  traits.synchronized = says("is_synchronized_device").cast<bool>();
  traits.use_host_timers = says("use_host_timers").cast<bool>();
  traits.resolves_data_dependency = says("resolves_data_dependency").cast<bool>();
  traits.handles_memory_backpressure = says("handles_memory_backpressure").cast<bool>();
  traits.indexed_names =
      accelerator.attr("device_name")(0).cast<std::string>().find(':') != std::string::npos;
  traits.triton = says("is_triton_supported").cast<bool>();
  if (py::hasattr(accelerator, "is_fp64_supported"))
    traits.fp64 = says("is_fp64_supported").cast<bool>();
  traits.visible_devices_envs = strings(says("visible_devices_envs"));
  traits.export_envs = strings(says("export_envs"));
  traits.op_builder_dir = says("op_builder_dir").cast<std::string>();
  traits.priority = -1000;  // selected only by name
  return traits;
}

std::shared_ptr<sdk::Backend> make_backend(const py::object& accelerator,
                                           const sdk::Traits& traits) {
  const py::gil_scoped_acquire gil;
  return std::make_shared<PythonBackend>(accelerator, traits);
}

}  // namespace anyaccel::deepspeed
