// The module anyaccel._native: classes and functions from include/anyaccel, which the package's
// Python files extend. This source binds errors and the registry. The module has few sources,
// because compiling torch's Python headers takes 6 s in each.
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

PyObject* error_class = nullptr;  // from errors.py, never freed

/// Called by blocking waits in C++, on any thread. If a signal handler raises an exception (such as
/// KeyboardInterrupt), the wait ends. Python runs handlers only on its main thread.
bool handler_raised() {
  if (Py_IsInitialized() == 0) return false;
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

void raise(const Error& error) {
  // The exception that the handler raised is more specific.
  if (error.code() == ErrorCode::interrupted && PyErr_Occurred() != nullptr) return;
  // Exceptions must not leave a translator.
  PyObject* value = PyObject_CallFunction(error_class, "ss", error.what(), to_string(error.code()));
  if (value == nullptr) return;
  PyErr_SetObject(error_class, value);
  Py_DECREF(value);
}

/// Translates anyaccel::Error to anyaccel.Error, and torch's exceptions as torch does.
void bind_errors(py::module_& module) {
  error_class = py::object(py::module_::import("anyaccel.errors").attr("Error")).release().ptr();
  module.attr("Error") = py::handle(error_class);
  set_interrupt_check(handler_raised);
  // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11 requires this type
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

// get_accelerator() does not use pybind11. Programs call it often, and without pybind11 it takes a
// tenth of the time.

/// The Python object of the selected accelerator. Requires the GIL.
struct {
  Accelerator* accelerator = nullptr;
  PyObject* object = nullptr;
  PyObject* make = nullptr;  // the Python class Accelerator
  // Objects of users' classes. If C++ code selects one of their accelerators later,
  // get_accelerator() returns the same object again. Never freed, like accelerators.
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
    // Another thread may have set the object while the constructor ran.
    if (auto* made = object.cast<Accelerator*>(); made != current.accelerator)
      remember(made, object.ptr());
  }
  Py_INCREF(current.object);
  return current.object;
}

PyMethodDef methods[] = {{"get_accelerator", get, METH_NOARGS,
                          "get_accelerator()\n--\n\nReturn the accelerator of this process. The "
                          "first call selects the accelerator that DS_ACCELERATOR names, or "
                          "probes the backends."},
                         {nullptr, nullptr, 0, nullptr}};

void bind_registry(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) throw py::error_already_set();
  module.def("set_accelerator_class",
             [](const py::object& make) { current.make = py::object(make).release().ptr(); });
  module.def(
      "set_accelerator_name", [](const std::string& name) { set_accelerator(name); }, NoGil());
  module.def(
      "set_accelerator_object",
      [](const py::object& object, const py::object& of_user) {
        auto& accelerator = object.cast<Accelerator&>();
        {
          const py::gil_scoped_release
              release;  // another thread that selects an accelerator may need the GIL
          set_accelerator(accelerator);
        }
        const auto& seen = of_user.is_none() ? object : of_user;
        if (!of_user.is_none() && current.of_users.emplace(&accelerator, of_user.ptr()).second)
          Py_INCREF(of_user.ptr());
        remember(&accelerator, seen.ptr());
      },
      py::arg("object"), py::arg("of_user") = py::none());
  module.def("environment", [] {
    // The process's current environment. Python's os.environ is a copy from the start of the
    // interpreter.
    py::list all;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view line(*entry);
      const auto equals = line.find('=');
      if (equals != std::string_view::npos)
        all.append(py::make_tuple(
            py::reinterpret_steal<py::str>(
                PyUnicode_DecodeFSDefaultAndSize(line.data(), static_cast<Py_ssize_t>(equals))),
            py::reinterpret_steal<py::str>(PyUnicode_DecodeFSDefault(line.data() + equals + 1))));
    }
    return all;
  });
  module.def("chosen", [] { return detail::chosen.load() != nullptr; });
  module.def("registered_backends", &registered_backends, NoGil(),
             "Return the names of all backends, in probing order.");
  module.def("detect", &detect, NoGil(),
             "Probe all backends and return which one would be selected, without selecting it.");
  module.def("detection", &detection, NoGil(),
             "Return the reason why get_accelerator() selected its backend. Probes if none is "
             "selected yet.");
  module.def("communication_backend_reason", &communication_backend_reason, NoGil(),
             "Return the reason for get_accelerator().communication_backend_name(), or \"\" if "
             "only one is possible.");
  module.def("is_current_accelerator_supported", &is_current_accelerator_supported, NoGil(),
             "Return whether the selected accelerator is from AnyAccel's registry.");
}

}  // namespace

}  // namespace anyaccel::python

PYBIND11_MODULE(_native, module) {
  namespace python = anyaccel::python;
  module.doc() = "AnyAccel's C++ library. Do not use it directly; import `anyaccel`.";
  module.attr("__version__") = ANYACCEL_VERSION;
  python::bind_errors(module);
  python::bind_records(module);
  python::bind_streams(module);
  python::bind_accelerator(module);
  python::bind_backends(module);
  python::bind_registry(module);
  python::bind_ops(module);
  python::bind_sim(module);
  python::bind_profiler(module);
}
