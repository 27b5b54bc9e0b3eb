// Fast calls for ops with many arguments. torch.ops boxes each argument and searches for the
// matching schema, which takes 3 us for the twelve arguments of adam_update. These calls pass plain
// arguments directly to the dispatcher. Calls with any other arguments go through torch.ops.
#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <tuple>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "binding.h"

namespace anyaccel::python {

namespace {

/// Converts a Python object to the type of an argument if it has exactly that type. Subclasses and
/// other convertible types are not accepted.
template <typename T>
struct Plain;

template <>
struct Plain<std::int64_t> {
  std::int64_t value = 0;
  bool take(PyObject* object) {
    if (!PyLong_CheckExact(object)) return false;
    int overflow = 0;
    value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0;
  }
};

template <>
struct Plain<double> {
  double value = 0;
  bool take(PyObject* object) {
    if (!PyFloat_CheckExact(object)) return false;
    value = PyFloat_AS_DOUBLE(object);
    return true;
  }
};

template <>
struct Plain<bool> {
  bool value = false;
  bool take(PyObject* object) {
    value = object == Py_True;
    return value || object == Py_False;
  }
};

/// Holds its own reference, because another thread may drop the caller's while the op runs.
template <>
struct Plain<const at::Tensor&> {
  at::Tensor value;
  bool take(PyObject* object) {
    if (!THPVariable_CheckExact(object)) return false;
    value = THPVariable_Unpack(object);
    return true;
  }
};

template <>
struct Plain<at::TensorList> {
  std::vector<at::Tensor> value;
  bool take(PyObject* object) {
    if (!PyList_CheckExact(object)) return false;
    const Py_ssize_t size = PyList_GET_SIZE(object);
    value.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = PyList_GET_ITEM(object, i);
      if (!THPVariable_CheckExact(item)) return false;
      value.push_back(THPVariable_Unpack(item));
    }
    return true;
  }
};

constexpr const char* capsule_name = "anyaccel.quick";

/// An op with its fast call, and torch's function for all other calls.
template <typename Signature>
struct Quick;

template <typename... Arguments>
struct Quick<void(Arguments...)> {
  PyMethodDef method;
  c10::TypedOperatorHandle<void(Arguments...)> op;
  PyObject* slow;

  static PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
    HANDLE_TH_ERRORS
    const auto& quick = *static_cast<const Quick*>(PyCapsule_GetPointer(self, capsule_name));
    std::tuple<Plain<Arguments>...> taken;
    const auto take_all = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return (std::get<i>(taken).take(given[i]) && ...);
    };
    const auto indices = std::index_sequence_for<Arguments...>();
    if (names != nullptr || count != sizeof...(Arguments) ||
        at::impl::torch_function_mode_enabled() || !take_all(indices))
      return PyObject_Vectorcall(quick.slow, given, static_cast<std::size_t>(count), names);
    {
      const py::gil_scoped_release others_run;
      std::apply([&](const auto&... plain) { quick.op.call(plain.value...); }, taken);
    }
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
  }

  /// Returns the Python function, which lives until the process exits, like the op.
  static PyObject* make(const c10::OperatorHandle& op, const char* name, PyObject* slow) {
    Py_INCREF(slow);
    auto* quick =
        new Quick{{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)),
                   METH_FASTCALL | METH_KEYWORDS, nullptr},
                  op.typed<void(Arguments...)>(),
                  slow};
    const auto self =
        py::reinterpret_steal<py::object>(PyCapsule_New(quick, capsule_name, nullptr));
    if (!self) throw py::error_already_set();
    return PyCFunction_New(&quick->method, self.ptr());
  }
};

using Int = std::int64_t;
using One = const at::Tensor&;
using Many = at::TensorList;
using Make = PyObject* (*)(const c10::OperatorHandle&, const char*, PyObject*);

struct Entry {
  const char* name;
  Make make;
};

// If a signature differs from the op's, typed() throws when the op is looked up.
constexpr std::array entries = {
    Entry{"adam_update", &Quick<void(Int, Int, double, double, double, double, double, bool, One,
                                     One, One, One)>::make},
    Entry{"adam_rollback", &Quick<void(Int, Int, double, double, double, double, double, bool, One,
                                       One, One, One)>::make},
    Entry{"adam_update_list", &Quick<void(Int, Int, double, double, double, double, double, bool,
                                          Many, Many, Many, Many)>::make},
    Entry{"adam_rollback_list", &Quick<void(Int, Int, double, double, double, double, double, bool,
                                            Many, Many, Many, Many)>::make},
    Entry{"adagrad_update", &Quick<void(Int, Int, double, double, double, One, One, One)>::make},
    Entry{"adagrad_update_list",
          &Quick<void(Int, Int, double, double, double, Many, Many, Many)>::make},
    Entry{"lion_update",
          &Quick<void(Int, Int, double, double, double, double, One, One, One)>::make},
    Entry{"lion_update_list",
          &Quick<void(Int, Int, double, double, double, double, Many, Many, Many)>::make},
};

}  // namespace

void bind_ops(py::module_& module) {
  module.def(
      "quick_op",
      [](const std::string& name, py::object slow) {
        for (const Entry& entry : entries) {
          if (name != entry.name) continue;
          const auto op =
              c10::Dispatcher::singleton().findSchemaOrThrow(("anyaccel::" + name).c_str(), "");
          PyObject* made = entry.make(op, entry.name, slow.ptr());
          if (made == nullptr) throw py::error_already_set();
          return py::reinterpret_steal<py::object>(made);
        }
        return slow;
      },
      "Return the fast call of the op `anyaccel::<name>` if there is one, otherwise `slow`, "
      "torch's "
      "function.");
}

}  // namespace anyaccel::python
