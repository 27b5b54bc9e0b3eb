// Adapts events, graphs and op builders from Python backends to C++, and from C++ backends to
// Python.
#include <string>

#include "backend.h"

namespace anyaccel::python {

namespace {

class PythonEvent final : public sdk::EventImpl {
 public:
  PythonEvent(py::object object, const std::string& backend)
      : object_(std::move(object)), where_(backend + " event") {}
  void record(const Stream& stream) override {
    ask(object_, where_, "record", take_nothing, stream);
  }
  void wait(const Stream& stream) override { ask(object_, where_, "wait", take_nothing, stream); }
  bool query() const override { return ask(object_, where_, "query", take<bool>); }
  void synchronize() const override { ask(object_, where_, "synchronize", take_nothing); }
  double elapsed_time(const EventImpl& end) const override {
    const auto* other = dynamic_cast<const PythonEvent*>(&end);
    if (other == nullptr)
      throw Error(ErrorCode::invalid_argument, where_,
                  {.what = "the end event belongs to a different backend"});
    return ask(object_, where_, "elapsed_time", take<double>, other->object_.get());
  }

 private:
  Kept object_;
  std::string where_;
};

class PythonGraph final : public sdk::GraphImpl {
 public:
  PythonGraph(py::object object, const std::string& backend)
      : object_(std::move(object)), where_(backend + " graph") {}
  void capture_begin(std::optional<GraphPool> pool) override {
    ask(object_, where_, "capture_begin", take_nothing, pool);
  }
  void capture_end() override { ask(object_, where_, "capture_end", take_nothing); }
  void replay() override { ask(object_, where_, "replay", take_nothing); }
  void reset() override { ask(object_, where_, "reset", take_nothing); }
  GraphPool pool() const override { return ask(object_, where_, "pool", take<GraphPool>); }

 private:
  Kept object_;
  std::string where_;
};

class PythonOpBuilder final : public sdk::OpBuilder {
 public:
  PythonOpBuilder(py::object object, std::string class_name)
      : object_(std::move(object)), class_name_(std::move(class_name)) {}
  std::string class_name() const override { return class_name_; }
  std::string name() const override { return ask(object_, class_name_, "name", take<std::string>); }
  Compatibility is_compatible() const noexcept override try {
    if (ask(object_, class_name_, "is_compatible", take<bool>)) return {true, {}};
    const auto reason = [](const py::object& answer) {
      return answer.attr("reason").cast<std::string>();
    };
    return {false, ask(object_, class_name_, "compatibility", reason)};
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
  void load() override { ask(object_, class_name_, "load", take_nothing); }
  std::vector<std::string> sources() const override {
    return ask(object_, class_name_, "sources", take<std::vector<std::string>>);
  }
  std::vector<std::string> include_paths() const override {
    return ask(object_, class_name_, "include_paths", take<std::vector<std::string>>);
  }

 private:
  Kept object_;
  std::string class_name_;
};

}  // namespace

std::shared_ptr<sdk::EventImpl> event_from(py::object made, const std::string& backend) {
  if (py::isinstance<sdk::EventImpl>(made)) return made.cast<std::shared_ptr<sdk::EventImpl>>();
  if (made.is_none()) return nullptr;
  return std::make_shared<PythonEvent>(std::move(made), backend);
}

std::shared_ptr<sdk::GraphImpl> graph_from(py::object made, const std::string& backend) {
  if (py::isinstance<sdk::GraphImpl>(made)) return made.cast<std::shared_ptr<sdk::GraphImpl>>();
  return std::make_shared<PythonGraph>(std::move(made), backend);
}

std::shared_ptr<sdk::OpBuilder> builder_from(py::object made, const std::string& class_name) {
  if (made.is_none()) return nullptr;
  return std::make_shared<PythonOpBuilder>(std::move(made), class_name);
}

void bind_backend_parts(py::module_& module) {
  using sdk::EventImpl, sdk::GraphImpl;
  py::class_<EventImpl, std::shared_ptr<EventImpl>>(module, "BackendEvent")
      .def("record", &EventImpl::record, py::arg("stream"), NoGil())
      .def("wait", &EventImpl::wait, py::arg("stream"), NoGil())
      .def("query", &EventImpl::query, NoGil())
      .def("synchronize", &EventImpl::synchronize, NoGil())
      .def("elapsed_time", &EventImpl::elapsed_time, py::arg("end"), NoGil());
  py::class_<GraphImpl, std::shared_ptr<GraphImpl>>(module, "BackendGraph")
      .def("capture_begin", &GraphImpl::capture_begin, py::arg("pool") = py::none(), NoGil())
      .def("capture_end", &GraphImpl::capture_end, NoGil())
      .def("replay", &GraphImpl::replay, NoGil())
      .def("reset", &GraphImpl::reset, NoGil())
      .def("pool", &GraphImpl::pool, NoGil());
}

}  // namespace anyaccel::python
