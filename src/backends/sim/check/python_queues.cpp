#include "backends/sim/check/python_queues.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

namespace {

constexpr const char* kQueueProgram = R"(
def _anyaccel_watch_queues(acquire_address, release_address):
    import concurrent.futures.thread as pool, ctypes, queue, threading
    function = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # keeps the interpreter's lock, so it is fast
    acquire, release = function(acquire_address), function(release_address)

    class SimpleQueue(queue.SimpleQueue):
        __slots__ = ()
        def put(self, item, block=True, timeout=None):
            release(id(self))
            super().put(item, block, timeout)
        def put_nowait(self, item):
            release(id(self))
            super().put_nowait(item)
        def get(self, block=True, timeout=None):
            item = super().get(block, timeout)
            acquire(id(self))
            return item
        def get_nowait(self):
            item = super().get_nowait()
            acquire(id(self))
            return item
        def empty(self):
            empty = super().empty()
            acquire(id(self))
            return empty

    SimpleQueue.__module__, SimpleQueue.__qualname__ = queue.SimpleQueue.__module__, "SimpleQueue"
    queue.SimpleQueue = SimpleQueue

    def before(owner, name, act):
        inner = getattr(owner, name)
        def function(self, *args, **kwargs):
            act(id(self))
            return inner(self, *args, **kwargs)
        setattr(owner, name, function)

    def after(owner, name, act):
        inner = getattr(owner, name)
        def function(self, *args, **kwargs):
            result = inner(self, *args, **kwargs)
            act(id(self))
            return result
        setattr(owner, name, function)

    before(pool._WorkItem, "__init__", release)
    before(pool._WorkItem, "run", acquire)
    before(threading.Event, "set", release)
    after(threading.Event, "is_set", acquire)
)";

template <typename Function>
Function python_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void watch_python_queues(PassFunction acquire, PassFunction release) {
  static bool started = false;
  const auto is_running = python_function<int (*)()>("Py_IsInitialized");
  const auto thread_state = python_function<void* (*)()>("PyGILState_GetThisThreadState");
  const auto lock = python_function<int (*)()>("PyGILState_Ensure");
  const auto unlock = python_function<void (*)(int)>("PyGILState_Release");
  const auto run = python_function<int (*)(const char*, void*)>("PyRun_SimpleStringFlags");
  if (is_running == nullptr || thread_state == nullptr || lock == nullptr || unlock == nullptr ||
      run == nullptr || is_running() == 0 || thread_state() == nullptr)
    return;
  const int state = lock();
  if (!started) {
    started = true;
    const auto address = [](PassFunction function) {
      return std::to_string(reinterpret_cast<std::uintptr_t>(function));
    };
    const auto call = std::string(kQueueProgram) + "\n_anyaccel_watch_queues(" + address(acquire) +
                      ", " + address(release) + ")\ndel _anyaccel_watch_queues\n";
    run(call.c_str(), nullptr);
  }
  unlock(state);
}

}  // namespace anyaccel::backends::sim::checking
