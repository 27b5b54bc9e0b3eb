#include "backends/sim/check/python_names.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

namespace {

// Each device type's Python module initializes the device in _lazy_init(), which raises an error if
// the type is not available.
constexpr const char* kProgram = R"(
def _anyaccel_watch_names(own, address):
    import ctypes, sys
    torch = sys.modules["torch"]
    refused = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(address)

    def watched(name, start):
        def _lazy_init(*args, **kwargs):
            try:
                return start(*args, **kwargs)
            except (AssertionError, RuntimeError):
                refused(name.encode())
                raise
        return _lazy_init

    for name, module in list(vars(torch).items()):
        if type(module) is type(sys) and name != own and callable(vars(module).get("_lazy_init")):
            module._lazy_init = watched(name, module._lazy_init)

def _anyaccel_watch_uncaught(address):
    import atexit, ctypes, sys
    out_of_memory = sys.modules["torch"].OutOfMemoryError
    uncaught = ctypes.CFUNCTYPE(None, ctypes.c_int)(address)

    def chain(error):
        """The exceptions that the printed traceback shows."""
        waiting, seen = [error], set()
        while waiting:
            error = waiting.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            yield error
            waiting.append(error.__cause__)
            waiting.append(None if error.__suppress_context__ else error.__context__)
            waiting.extend(getattr(error, "exceptions", ()))

    @atexit.register
    def tell():
        # The interpreter stores the last printed exception there. The first name exists since Python 3.12.
        last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(last, BaseException):
            uncaught(any(isinstance(error, out_of_memory) or getattr(error, "code", None) == "out_of_memory"
                         for error in chain(last)))
)";

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool watch_python(const char* own, NameFunction refused, UncaughtFunction uncaught) {
  const auto is_running = find<int (*)()>("Py_IsInitialized");
  const auto thread_state = find<void* (*)()>("PyGILState_GetThisThreadState");
  const auto lock = find<int (*)()>("PyGILState_Ensure");
  const auto unlock = find<void (*)(int)>("PyGILState_Release");
  const auto run = find<int (*)(const char*, void*)>("PyRun_SimpleStringFlags");
  const auto module_dict = find<void* (*)()>("PyImport_GetModuleDict");
  const auto get_item = find<void* (*)(void*, const char*)>("PyDict_GetItemString");
  const auto has_attribute = find<int (*)(void*, const char*)>("PyObject_HasAttrString");
  if (is_running == nullptr || thread_state == nullptr || lock == nullptr || unlock == nullptr ||
      run == nullptr || module_dict == nullptr || get_item == nullptr || has_attribute == nullptr ||
      is_running() == 0)
    return true;
  // A stream's worker must not wait for Python, which may wait for that stream.
  if (thread_state() == nullptr) return false;
  const int state = lock();
  void* torch = get_item(module_dict(), "torch");
  // torch defines these names last. While they are missing, torch is still being imported.
  const bool ready = torch != nullptr && has_attribute(torch, "_register_device_module") != 0 &&
                     has_attribute(torch, "compile") != 0;
  if (ready) {
    const auto call = std::string(kProgram) + "_anyaccel_watch_names('" + own + "', " +
                      std::to_string(reinterpret_cast<std::uintptr_t>(refused)) +
                      ")\n_anyaccel_watch_uncaught(" +
                      std::to_string(reinterpret_cast<std::uintptr_t>(uncaught)) +
                      ")\ndel _anyaccel_watch_names, _anyaccel_watch_uncaught\n";
    run(call.c_str(), nullptr);
  }
  unlock(state);
  return ready;
}

}  // namespace anyaccel::backends::sim::checking
