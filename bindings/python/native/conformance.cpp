// The module anyaccel._conformance: the kit, for backends of the process that asks. A module of its own, because most programs
// need none.
#include <pthread.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace {

namespace py = pybind11;

/// True on the thread that runs the kit, whose children ask Python backends: Python must know of each fork.
thread_local bool judging = false;
thread_local PyGILState_STATE held;

void before_fork() {
  if (!judging) return;
  held = PyGILState_Ensure();  // or a child might find it taken by a thread that it has not
  PyOS_BeforeFork();
}

void in_parent() {
  if (!judging) return;
  PyOS_AfterFork_Parent();
  PyGILState_Release(held);
}

void in_child() {
  if (!judging) return;
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
  return anyaccel::conformance::conformance_main(static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace

PYBIND11_MODULE(_conformance, module) {
  py::module_::import("anyaccel._native");
  module.def("run", &run, py::call_guard<py::gil_scoped_release>());
}
