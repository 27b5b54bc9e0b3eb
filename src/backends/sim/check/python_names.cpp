#include "backends/sim/check/python_names.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

namespace {

// Each device type's module starts the device in _lazy_init(), which raises where the type is not there.
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
)";

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool watch_python_names(const char* own, NameFunction refused) {
  const auto is_running = find<int (*)()>("Py_IsInitialized");
  const auto thread_state = find<void* (*)()>("PyGILState_GetThisThreadState");
  const auto lock = find<int (*)()>("PyGILState_Ensure");
  const auto unlock = find<void (*)(int)>("PyGILState_Release");
  const auto run = find<int (*)(const char*, void*)>("PyRun_SimpleStringFlags");
  const auto module_dict = find<void* (*)()>("PyImport_GetModuleDict");
  const auto get_item = find<void* (*)(void*, const char*)>("PyDict_GetItemString");
  const auto has_attribute = find<int (*)(void*, const char*)>("PyObject_HasAttrString");
  if (is_running == nullptr || thread_state == nullptr || lock == nullptr || unlock == nullptr || run == nullptr ||
      module_dict == nullptr || get_item == nullptr || has_attribute == nullptr || is_running() == 0)
    return true;
  // A stream's worker must not wait for Python, which may wait for that stream.
  if (thread_state() == nullptr) return false;
  const int state = lock();
  void* torch = get_item(module_dict(), "torch");
  // The last that torch defines: before, it is still being imported.
  const bool ready =
      torch != nullptr && has_attribute(torch, "_register_device_module") != 0 && has_attribute(torch, "compile") != 0;
  if (ready) {
    const auto call = std::string(kProgram) + "_anyaccel_watch_names('" + own + "', " +
                      std::to_string(reinterpret_cast<std::uintptr_t>(refused)) + ")\ndel _anyaccel_watch_names\n";
    run(call.c_str(), nullptr);
  }
  unlock(state);
  return ready;
}

}  // namespace anyaccel::backends::sim::checking
