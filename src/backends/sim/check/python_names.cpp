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
    import ctypes, functools, sys
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

    # For a device type that is not available, torch disables autocast and only warns.
    autocast = torch.amp.autocast_mode.autocast
    start_autocast = autocast.__init__

    @functools.wraps(start_autocast)
    def __init__(self, device_type, dtype=None, enabled=True, *args, **kwargs):
        if enabled and device_type not in (own, "cpu"):
            refused(str(device_type).encode())
        start_autocast(self, device_type, dtype, enabled, *args, **kwargs)

    autocast.__init__ = __init__

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

def _anyaccel_watch_reads(read, map, unmap):
    import ctypes, sys, weakref
    torch = sys.modules["torch"]
    address, size = ctypes.c_size_t, ctypes.c_size_t
    read = ctypes.CFUNCTYPE(None, address, size)(read)
    map = ctypes.CFUNCTYPE(address, address, size)(map)
    unmap = ctypes.CFUNCTYPE(None, address, size)(unmap)
    own_tolist, own_numpy = torch.Tensor.tolist, torch.Tensor.numpy

    class View:
        """Memory of `array` at another address, for numpy.asarray()."""
        def __init__(self, array, start):
            self.array = array
            self.__array_interface__ = dict(array.__array_interface__, data=(start, not array.flags.writeable))

    def bytes_of(strides, sizes, item):
        return 0 if 0 in sizes else item + sum((n - 1) * stride for n, stride in zip(sizes, strides))

    def plain(tensor):
        return type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.device.type == "cpu"

    def tolist(self):
        if plain(self):
            item = self.element_size()
            read(self.data_ptr(), bytes_of([stride * item for stride in self.stride()], self.shape, item))
        return own_tolist(self)

    def numpy(self, *args, **kwargs):
        array = own_numpy(self, *args, **kwargs)
        if not plain(self) or min(array.strides, default=0) < 0:
            return array
        start, count = array.__array_interface__["data"][0], bytes_of(array.strides, array.shape, array.itemsize)
        moved = map(start, count)
        if moved == 0:
            return array
        view = View(array, moved)
        weakref.finalize(view, unmap, moved, count).atexit = False
        return sys.modules["numpy"].asarray(view)

    torch.Tensor.tolist, torch.Tensor.numpy = tolist, numpy
)";

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool watch_python(const char* own, const PythonCallbacks& callbacks) {
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
    const auto text = [](auto function) {
      return std::to_string(reinterpret_cast<std::uintptr_t>(function));
    };
    const auto call =
        std::string(kProgram) + "_anyaccel_watch_names('" + own + "', " + text(callbacks.refused) +
        ")\n_anyaccel_watch_uncaught(" + text(callbacks.uncaught) + ")\n_anyaccel_watch_reads(" +
        text(callbacks.read) + ", " + text(callbacks.map) + ", " + text(callbacks.unmap) +
        ")\ndel _anyaccel_watch_names, _anyaccel_watch_uncaught, "
        "_anyaccel_watch_reads\n";
    run(call.c_str(), nullptr);
  }
  unlock(state);
  return ready;
}

}  // namespace anyaccel::backends::sim::checking
