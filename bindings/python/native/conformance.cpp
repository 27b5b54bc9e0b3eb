// The module anyaccel._conformance: the conformance kit for backends in this process. It is
// separate because most programs do not need it.
#include <pthread.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace {

namespace py = pybind11;

/// True on the thread that runs the kit. The kit runs cases in forked children that call Python
/// backends, so Python must be notified of each fork.
thread_local bool judging = false;
thread_local bool forking = false;
thread_local PyGILState_STATE held;

void before_fork() {
  // If this thread holds the GIL, the fork comes from os.fork() in a test case. os.fork() runs
  // Python's hooks itself, and the hooks' locks are not recursive.
  forking = judging && PyGILState_Check() == 0;
  if (!forking) return;
  // Otherwise, another thread could hold the GIL. That thread does not exist in the child.
  held = PyGILState_Ensure();
  PyOS_BeforeFork();
}

void in_parent() {
  if (!forking) return;
  PyOS_AfterFork_Parent();
  PyGILState_Release(held);
}

void in_child() {
  if (!forking) return;
  PyOS_AfterFork_Child();
  PyGILState_Release(held);
}

int run(const std::vector<std::string>& words) {
  static const int once = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(once);
  std::vector<const char*> pointers;
  for (const auto& word : words) pointers.push_back(word.c_str());
  judging = true;
  struct Reset {
    ~Reset() { judging = false; }
  } const reset;
  return anyaccel::conformance::conformance_main(static_cast<int>(pointers.size()),
                                                 pointers.data());
}

namespace kit = anyaccel::conformance;

kit::Grade grade_of(const std::string& name) {
  for (const auto grade : {kit::Grade::required, kit::Grade::recommended, kit::Grade::optional})
    if (name == kit::to_string(grade)) return grade;
  throw py::value_error("unknown grade: " + name);
}

/// Registers a case written in Python. The case fails if `body` raises an exception, but is skipped
/// if the exception is an instance of `skip`.
void register_case(const std::string& suite, const std::string& name, const std::string& grade,
                   const py::object& body, const py::object& skip) {
  // Leaked on purpose: cases are destroyed after Python has shut down.
  auto* const call = new py::object(body);
  auto* const skips = new py::object(skip);
  kit::register_case(
      {suite, name, grade_of(grade), [call, skips](anyaccel::Accelerator& /*accelerator*/) {
         const py::gil_scoped_acquire gil;
         try {
           (*call)();
         } catch (py::error_already_set& error) {
           const std::string text = py::str(error.value());
           if (error.matches(*skips)) kit::skip(text);
           if (error.matches(PyExc_AssertionError)) kit::fail(text);
           kit::fail(std::string(py::str(error.type().attr("__name__"))) + ": " + text);
         }
       }});
}

}  // namespace

PYBIND11_MODULE(_conformance, module) {
  py::module_::import("anyaccel._native");
  module.def("register_case", &register_case);
  module.def("run", &run, py::call_guard<py::gil_scoped_release>());
}
