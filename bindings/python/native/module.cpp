// The module anyaccel._native: classes and functions of include/anyaccel, which the package's Python files complete.
// Here are errors and the registry. Few sources, because each takes torch's Python headers 6 s.
#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include <string_view>
#include <unordered_map>

#include "anyaccel/communication.h"
#include "anyaccel/interrupt.h"
#include "anyaccel/version.h"
#include "binding.h"

namespace anyaccel::python {

namespace {

PyObject* error_class = nullptr;  // of errors.py; kept for the process

/// Asked by waits in C++, in any thread: a signal's handler that raises (KeyboardInterrupt) ends them. Python runs handlers in its
/// main thread alone.
bool handler_raised() {
  if (Py_IsInitialized() == 0) return false;
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

void raise(const Error& error) {
  // What the handler raised says more than that it raised.
  if (error.code() == ErrorCode::interrupted && PyErr_Occurred() != nullptr) return;
  // No exception may pass a translator.
  PyObject* value = PyObject_CallFunction(error_class, "ss", error.what(), to_string(error.code()));
  if (value == nullptr) return;
  PyErr_SetObject(error_class, value);
  Py_DECREF(value);
}

/// anyaccel::Error as anyaccel.Error; torch's exceptions stay torch's.
void bind_errors(py::module_& module) {
  error_class = py::object(py::module_::import("anyaccel.errors").attr("Error")).release().ptr();
  module.attr("Error") = py::handle(error_class);
  set_interrupt_check(handler_raised);
  // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11 takes this type alone
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    if (!pointer) return;
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(pointer);
    }
  });
}

// get_accelerator() is not made by pybind11: programs call it everywhere, and this way it takes a tenth of the time.

/// The Python object of the chosen accelerator; read and written with the GIL held.
struct {
  Accelerator* accelerator = nullptr;
  PyObject* object = nullptr;
  PyObject* make = nullptr;  // the class Accelerator of Python
  // Objects of users stay theirs, whoever makes their accelerator the process's again. Kept for the process, as accelerators are.
  std::unordered_map<const Accelerator*, PyObject*> of_users;
} current;

void remember(Accelerator* accelerator, PyObject* object) {
  Py_INCREF(object);
  Py_XDECREF(current.object);
  current.object = object;
  current.accelerator = accelerator;
}

PyObject* get(PyObject*, PyObject*) {
  const auto* chosen = detail::chosen.load(std::memory_order_acquire);
  if (chosen == nullptr || chosen != current.accelerator) {
    if (const auto found = current.of_users.find(chosen); found != current.of_users.end()) {
      remember(const_cast<Accelerator*>(chosen), found->second);
      Py_INCREF(current.object);
      return current.object;
    }
    const auto object = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(current.make));
    if (!object) return nullptr;
    // Another thread may have been here while that one ran.
    if (auto* made = object.cast<Accelerator*>(); made != current.accelerator) remember(made, object.ptr());
  }
  Py_INCREF(current.object);
  return current.object;
}

PyMethodDef methods[] = {{"get_accelerator", get, METH_NOARGS,
                          "get_accelerator()\n--\n\nThe accelerator of this process; chosen at the first call, as "
                          "DS_ACCELERATOR says or by probing."},
                         {nullptr, nullptr, 0, nullptr}};

void bind_registry(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) throw py::error_already_set();
  module.def("set_accelerator_class", [](const py::object& make) { current.make = py::object(make).release().ptr(); });
  module.def(
      "set_accelerator_name", [](const std::string& name) { set_accelerator(name); }, NoGil());
  module.def(
      "set_accelerator_object",
      [](const py::object& object, const py::object& of_user) {
        auto& accelerator = object.cast<Accelerator&>();
        {
          const py::gil_scoped_release release;  // whoever chooses meanwhile may need it
          set_accelerator(accelerator);
        }
        const auto& seen = of_user.is_none() ? object : of_user;
        if (!of_user.is_none() && current.of_users.emplace(&accelerator, of_user.ptr()).second)
          Py_INCREF(of_user.ptr());
        remember(&accelerator, seen.ptr());
      },
      py::arg("object"), py::arg("of_user") = py::none());
  module.def("environment", [] {
    // As the process has it now; Python's os.environ is a copy from its start.
    py::list all;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view line(*entry);
      const auto equals = line.find('=');
      if (equals != std::string_view::npos)
        all.append(py::make_tuple(py::reinterpret_steal<py::str>(
                                      PyUnicode_DecodeFSDefaultAndSize(line.data(), static_cast<Py_ssize_t>(equals))),
                                  py::reinterpret_steal<py::str>(PyUnicode_DecodeFSDefault(line.data() + equals + 1))));
    }
    return all;
  });
  module.def("chosen", [] { return detail::chosen.load() != nullptr; });
  module.def("registered_backends", &registered_backends, NoGil(), "Names of all backends in the order of probing.");
  module.def("detect", &detect, NoGil(), "Probes all backends and says which would be chosen, without choosing it.");
  module.def("detection", &detection, NoGil(), "What get_accelerator() went by; probes when nothing was chosen yet.");
  module.def(
      "communication_backend_reason", &communication_backend_reason, NoGil(),
      "Why get_accelerator().communication_backend_name() is what it is; empty where there is nothing to choose.");
  module.def("is_current_accelerator_supported", &is_current_accelerator_supported, NoGil(),
             "True when the chosen accelerator came from AnyAccel's own registry.");
}

}  // namespace

}  // namespace anyaccel::python

PYBIND11_MODULE(_native, module) {
  namespace python = anyaccel::python;
  module.doc() = "AnyAccel's C++ library. Not for direct use: `import anyaccel`.";
  module.attr("__version__") = ANYACCEL_VERSION;
  python::bind_errors(module);
  python::bind_records(module);
  python::bind_streams(module);
  python::bind_accelerator(module);
  python::bind_backends(module);
  python::bind_registry(module);
  python::bind_ops(module);
}
