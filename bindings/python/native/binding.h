// Helpers shared by the binding's sources. They contain no logic; checks and defaults are in the
// C++ library.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel::python {

namespace py = pybind11;

/// Releases the GIL. If a daemon thread acquires it again while the interpreter shuts down, Python
/// terminates the thread by unwinding. This destructor allows that; pybind11's would terminate the
/// process.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() noexcept(false) { PyEval_RestoreThread(state_); }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// For calls that may block.
using NoGil = py::call_guard<GilReleased>;

/// Exposes a C++ guard class as a reentrant context manager.
template <typename Guard>
class Scope {
 public:
  explicit Scope(std::function<std::unique_ptr<Guard>()> open) : open_(std::move(open)) {}
  Scope(Scope&&) noexcept = default;
  ~Scope() {
    while (!guards_.empty()) guards_.pop_back();
  }
  void enter() { guards_.push_back(open_()); }
  /// Removes and returns the innermost guard. The scope ends when the caller destroys it.
  std::unique_ptr<Guard> leave() {
    if (guards_.empty())
      throw Error(ErrorCode::invalid_state, "__exit__",
                  {.what = "the scope was exited more often than entered"});
    auto guard = std::move(guards_.back());
    guards_.pop_back();
    return guard;
  }

 private:
  std::function<std::unique_ptr<Guard>()> open_;
  std::vector<std::unique_ptr<Guard>> guards_;
};

template <typename Guard, typename... Arguments>
Scope<Guard> scope(Arguments... arguments) {
  return Scope<Guard>([arguments...] { return std::make_unique<Guard>(arguments...); });
}

template <typename Guard>
void bind_scope(py::module_& module, const char* name) {
  py::class_<Scope<Guard>>(module, name)
      .def("__enter__",
           [](py::object self) {
             self.cast<Scope<Guard>&>().enter();
             return self;
           })
      .def("__exit__", [](Scope<Guard>& self, const py::args&) { self.leave(); });
}

void bind_accelerator(py::module_& module);
void bind_backends(py::module_& module);
void bind_profiler(py::module_& module);
void bind_records(py::module_& module);
void bind_streams(py::module_& module);
void bind_ops(py::module_& module);
void bind_sim(py::module_& module);

}  // namespace anyaccel::python

namespace pybind11::detail {

/// Converts between anyaccel::Stream and the Python class anyaccel.Stream, which derives from
/// torch.Stream.
template <>
struct type_caster<anyaccel::Stream> {
  PYBIND11_TYPE_CASTER(anyaccel::Stream, const_name("anyaccel.Stream"));
  type_caster() : value(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU)), 0) {}
  bool load(handle source, bool);
  static handle cast(const anyaccel::Stream& stream, return_value_policy, handle);
};

}  // namespace pybind11::detail
