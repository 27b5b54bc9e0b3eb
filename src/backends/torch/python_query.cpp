#include "backends/torch/python_query.h"

#include <dlfcn.h>

namespace anyaccel::sdk {

namespace {

using Object = void*;  // PyObject*, opaque here

/// Functions of Python's stable C API (docs.python.org, "C API Stability"), looked up in the
/// running process.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*gil_ensure)() = nullptr;
  void (*gil_release)(int) = nullptr;
  Object (*import_module)(const char*) = nullptr;
  Object (*get_attribute)(Object, const char*) = nullptr;
  Object (*call)(Object, Object) = nullptr;
  int (*is_true)(Object) = nullptr;
  void (*clear_error)() = nullptr;
  void (*decrement)(Object) = nullptr;
  bool complete = true;

  Python() {
    find("Py_IsInitialized", is_initialized);
    find("PyGILState_Ensure", gil_ensure);
    find("PyGILState_Release", gil_release);
    find("PyImport_ImportModule", import_module);
    find("PyObject_GetAttrString", get_attribute);
    find("PyObject_CallObject", call);
    find("PyObject_IsTrue", is_true);
    find("PyErr_Clear", clear_error);
    find("Py_DecRef", decrement);
  }

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    complete = complete && function != nullptr;
  }
};

/// Holds the GIL and the references of one call.
class Call {
 public:
  explicit Call(const Python& python) : python_(python), state_(python.gil_ensure()) {}
  ~Call() {
    python_.clear_error();
    for (Object object : {result_, function_, module_}) python_.decrement(object);  // accepts null
    python_.gil_release(state_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  PythonAnswer run(const std::string& module, const std::string& function) {
    module_ = python_.import_module(module.c_str());
    if (module_ == nullptr) return {std::nullopt, "Python cannot import " + module};
    function_ = python_.get_attribute(module_, function.c_str());
    if (function_ == nullptr) return {std::nullopt, module + " has no " + function};
    result_ = python_.call(function_, nullptr);
    const int truth = result_ == nullptr ? -1 : python_.is_true(result_);
    if (truth < 0) return {std::nullopt, module + "." + function + "() failed"};
    return {truth == 1, {}};
  }

 private:
  const Python& python_;
  int state_;
  Object module_ = nullptr, function_ = nullptr, result_ = nullptr;
};

}  // namespace

PythonAnswer ask_python(const char* module, const char* function) noexcept {
  try {
    const Python python;
    if (!python.complete || python.is_initialized() == 0)
      return {std::nullopt,
              std::string("no Python interpreter is running in this process to query ") + module};
    return Call(python).run(module, function);
  } catch (const std::exception& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace anyaccel::sdk
