// Binds streams, events and graphs.
#include <optional>
#include <string>

#include "binding.h"

namespace pybind11::detail {

namespace {

PyTypeObject* stream_class = nullptr;  // from stream.py, never freed
PyObject* index_name = nullptr;        // "_index": our device index, which torch's object may lack

}  // namespace

bool type_caster<anyaccel::Stream>::load(handle source, bool) {
  if (!THPStream_Check(source.ptr())) return false;
  const auto* stream = reinterpret_cast<THPStream*>(source.ptr());
  auto index = static_cast<anyaccel::DeviceIndex>(stream->device_index);
  if (stream_class != nullptr && Py_IS_TYPE(source.ptr(), stream_class)) {
    const auto ours = reinterpret_steal<object>(PyObject_GetAttr(source.ptr(), index_name));
    if (!ours) throw error_already_set();
    index = ours.cast<int>();
  }
  value = {
      c10::Stream::unpack3(stream->stream_id, static_cast<c10::DeviceIndex>(stream->device_index),
                           static_cast<c10::DeviceType>(stream->device_type)),
      index < 0 ? 0 : index};
  return true;
}

handle type_caster<anyaccel::Stream>::cast(const anyaccel::Stream& stream, return_value_policy,
                                           handle) {
  auto result = reinterpret_steal<object>(stream_class->tp_alloc(stream_class, 0));
  if (!result) throw error_already_set();
  const auto unwrapped = stream.unwrap();
  auto* fields = reinterpret_cast<THPStream*>(result.ptr());
  fields->stream_id = unwrapped.id();
  fields->device_type = static_cast<std::int64_t>(unwrapped.device_type());
  fields->device_index =
      unwrapped.device_index();  // NOLINT(bugprone-signed-char-misuse): -1 is not an index
  if (PyObject_SetAttr(result.ptr(), index_name, int_(stream.device_index()).ptr()) != 0)
    throw error_already_set();
  return result.release();
}

}  // namespace pybind11::detail

namespace anyaccel::python {

namespace {

void bind_events(py::module_& module) {
  py::class_<Event>(
      module, "Event",
      R"(Event(enable_timing=False, blocking=False, interprocess=False, device_index=None)

A mark in a stream that can be waited for and timed. Before record() it counts as done.
`blocking` is accepted for torch.cuda's sake and changes nothing; `interprocess` is unsupported.)")
      .def(py::init([](bool enable_timing, bool, bool interprocess,
                       std::optional<DeviceIndex> device_index) {
             if (interprocess)
               throw Error(ErrorCode::unsupported, "Event",
                           {.what = "interprocess events are not supported"});
             return get_accelerator().Event(enable_timing, device_index);
           }),
           py::arg("enable_timing") = false, py::arg("blocking") = false,
           py::arg("interprocess") = false, py::arg("device_index") = py::none(), NoGil())
      .def(
          "record",
          [](Event& self, const std::optional<Stream>& stream) {
            stream ? self.record(*stream) : self.record();
          },
          py::arg("stream") = py::none(),
          "Record the work queued so far on the stream (default: the current one).")
      .def(
          "wait",
          [](const Event& self, const std::optional<Stream>& stream) {
            stream ? self.wait(*stream) : self.wait();
          },
          py::arg("stream") = py::none(), NoGil(),
          "Make later work on the stream (default: the current one) wait for this event.")
      .def("query", &Event::query, "Return whether the recorded work has completed.")
      .def(
          "__repr__",
          [](const Event& self) {
            // The repr must also work if the device has failed.
            try {
              return std::string(self.query() ? "anyaccel.Event(done)" : "anyaccel.Event(pending)");
            } catch (const std::exception&) {
              return std::string("anyaccel.Event(failed)");
            }
          })
      .def("synchronize", &Event::synchronize, NoGil(),
           "Block until the recorded work has completed.")
      .def(
          "elapsed_time", &Event::elapsed_time, py::arg("end_event"), NoGil(),
          "Return the time to another event in milliseconds. Both events must have timing enabled, "
          "and must have been recorded and completed.");
}

const char* state_name(const Graph& graph) {
  switch (graph.state()) {
    case Graph::State::capturing: return "capturing";
    case Graph::State::captured: return "captured";
    case Graph::State::empty: break;
  }
  return "empty";
}

void bind_graphs(py::module_& module) {
  py::class_<Graph>(module, "Graph", "A sequence of device work, captured once and replayed.")
      .def(py::init([] { return get_accelerator().create_graph(); }), NoGil(),
           "Create an empty graph for the accelerator.")
      .def_property_readonly("state", &state_name, "\"empty\", \"capturing\" or \"captured\".")
      .def(
          "__repr__",
          [](const Graph& self) { return std::string("anyaccel.Graph(") + state_name(self) + ")"; })
      .def("capture_begin", &Graph::capture_begin, py::arg("pool") = py::none(), NoGil(),
           "Start capturing this thread's work.")
      .def("capture_end", &Graph::capture_end, NoGil(), "End the capture.")
      .def("replay", &Graph::replay, NoGil(), "Run the captured work again.")
      .def("reset", &Graph::reset, NoGil(), "Discard the captured work and release its memory.")
      .def("pool", &Graph::pool,
           "Return this graph's memory pool, which another graph's capture_begin() accepts.");
  using Capture = Scope<GraphCapture>;
  py::class_<Capture>(module, "GraphScope")
      .def("__enter__",
           [](const py::object& self) {
             auto& capture = self.cast<Capture&>();
             const py::gil_scoped_release release;
             capture.enter();
           })
      .def("__exit__", [](Capture& self, const py::object& exception, const py::args&) {
        auto capture = self.leave();
        const bool failed = !exception.is_none();
        const py::gil_scoped_release release;
        failed ? capture->cancel() : capture->end();
        capture.reset();
      });
}

}  // namespace

void bind_streams(py::module_& module) {
  module.def("set_stream_class", [](const py::type& type) {
    py::detail::index_name = PyUnicode_InternFromString("_index");
    py::detail::stream_class = reinterpret_cast<PyTypeObject*>(py::type(type).release().ptr());
  });
  module.def(
      "new_stream",
      [](std::optional<DeviceIndex> device_index, int priority) {
        return get_accelerator().Stream(device_index, priority);
      },
      NoGil());
  module.def("stream_query", &Stream::query);
  module.def("stream_synchronize", &Stream::synchronize, NoGil());
  module.def("stream_wait_event", &Stream::wait_event);
  module.def("stream_wait_stream", &Stream::wait_stream);
  module.def("stream_record_event", &Stream::record_event);
  module.def("stream_native_handle", [](const Stream& self) {
    return reinterpret_cast<std::uintptr_t>(self.native_handle());
  });
  bind_events(module);
  bind_graphs(module);
}

}  // namespace anyaccel::python
