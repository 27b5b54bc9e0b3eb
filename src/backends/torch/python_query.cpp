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
  Object (*call_with)(Object, const char*, ...) = nullptr;
  Object (*item)(Object, std::ptrdiff_t) = nullptr;
  long long (*to_integer)(Object) = nullptr;
  Object (*error)() = nullptr;
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
    find("PyObject_CallFunction", call_with);
    find("PySequence_GetItem", item);
    find("PyLong_AsLongLong", to_integer);
    find("PyErr_Occurred", error);
    find("PyObject_IsTrue", is_true);
    find("PyErr_Clear", clear_error);
    find("Py_DecRef", decrement);
  }

  bool runs() const { return complete && is_initialized() != 0; }

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

  PythonAnswer truth(const std::string& module, const std::string& function) {
    auto reason = look_up(module, function);
    if (!reason.empty()) return {std::nullopt, std::move(reason)};
    result_ = python_.call(function_, nullptr);
    const int truth = result_ == nullptr ? -1 : python_.is_true(result_);
    if (truth < 0) return {std::nullopt, module + "." + function + "() failed"};
    return {truth == 1, {}};
  }

  PythonPair pair(const std::string& module, const std::string& function, int argument) {
    auto reason = look_up(module, function);
    if (!reason.empty()) return {std::nullopt, std::move(reason)};
    result_ = python_.call_with(function_, "i", argument);
    const auto first = result_ == nullptr ? 0 : integer(0);
    const auto second = result_ == nullptr ? 0 : integer(1);
    if (result_ == nullptr || python_.error() != nullptr)
      return {std::nullopt, module + "." + function + "() did not return two integers"};
    return {std::pair{first, second}, {}};
  }

 private:
  /// Imports the module and gets the function. Returns the reason if this fails.
  std::string look_up(const std::string& module, const std::string& function) {
    module_ = python_.import_module(module.c_str());
    if (module_ == nullptr) return "Python cannot import " + module;
    function_ = python_.get_attribute(module_, function.c_str());
    if (function_ == nullptr) return module + " has no " + function;
    return {};
  }

  std::int64_t integer(std::ptrdiff_t index) {
    Object object = python_.item(result_, index);
    const auto value = object == nullptr ? 0 : python_.to_integer(object);
    python_.decrement(object);
    return value;
  }

  const Python& python_;
  int state_;
  Object module_ = nullptr, function_ = nullptr, result_ = nullptr;
};

std::string no_interpreter(const char* module) {
  return std::string("no Python interpreter is running in this process to query ") + module;
}

}  // namespace

PythonAnswer ask_python(const char* module, const char* function) noexcept {
  try {
    const Python python;
    if (!python.runs()) return {std::nullopt, no_interpreter(module)};
    return Call(python).truth(module, function);
  } catch (const std::exception& error) {
    return {std::nullopt, error.what()};
  }
}

PythonPair ask_python_pair(const char* module, const char* function, int argument) noexcept {
  try {
    const Python python;
    if (!python.runs()) return {std::nullopt, no_interpreter(module)};
    return Call(python).pair(module, function, argument);
  } catch (const std::exception& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace anyaccel::sdk
