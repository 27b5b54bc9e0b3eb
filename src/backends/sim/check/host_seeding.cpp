#include "backends/sim/check/host_seeding.h"

#include <ATen/CPUGeneratorImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <sstream>

namespace anyaccel::backends::sim::checking {

namespace {

// NumPy's global generator has a seed sequence until the program seeds it.
constexpr const char* kSeedingProgram = R"(
def _anyaccel_watch_seeding(address, ask):
    import ctypes, functools, random, sys
    seeded = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(address)

    def frames(frame):
        while frame is not None:
            yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
            frame = frame.f_back

    def text(lines):
        shown = (f'File "{file}", line {line} in {name}' for file, line, name in lines)
        return "\n".join(shown).encode(errors="replace")

    def watch(module, name):
        own = module.seed
        if hasattr(own, "_anyaccel_watched"):
            return
        @functools.wraps(own, updated=())
        def seed(*args, **kwargs):
            own(*args, **kwargs)
            if args and args[0] is not None or kwargs:
                seeded(name, text(frames(sys._getframe(1))))
        seed._anyaccel_watched = True
        module.seed = seed
        earlier = getattr(module, "_anyaccel_seeded", None)  # from sitecustomize
        if earlier is not None:
            seeded(name, text(earlier))

    watch(random, b"Python's random module")
    numpy = sys.modules.get("numpy.random")
    if numpy is None or not hasattr(numpy, "seed"):
        return
    watch(numpy, b"NumPy")
    bits = getattr(getattr(getattr(numpy, "mtrand", None), "_rand", None), "_bit_generator", None)
    if ask and getattr(bits, "_seed_seq", bits) is None:
        seeded(b"NumPy", None)

_anyaccel_watch_seeding(ADDRESS, ASK)
del _anyaccel_watch_seeding
)";

struct Seen {
  std::mutex mutex;
  std::optional<HostSeeding> python;
  std::uint64_t torch_seed = 0;  ///< seed of torch's host generator at the start
  std::atomic<bool> started{false}, asked{false};
};

Seen& seen() {
  static auto* all = new Seen;
  return *all;
}

std::uint64_t torch_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

/// `lines`: the Python stack, innermost first; null if unknown.
void python_seeded(const char* generator, const char* lines) {
  HostSeeding found{.generator = generator, .stack = {}};
  if (lines != nullptr) {
    found.stack.emplace();
    std::istringstream text(lines);
    for (std::string line; std::getline(text, line);) found.stack->interpreter.push_back(line);
  }
  const std::lock_guard lock(seen().mutex);
  if (!seen().python || !seen().python->stack) seen().python = std::move(found);
}

template <typename Function>
Function interpreter_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

std::string replaced(std::string text, const std::string& word, const std::string& value) {
  return text.replace(text.find(word), word.size(), value);
}

/// `ask`: report NumPy's seeding even if it was not observed.
void run_python(bool ask) {
  const auto is_running = interpreter_function<int (*)()>("Py_IsInitialized");
  const auto thread_state = interpreter_function<void* (*)()>("PyGILState_GetThisThreadState");
  const auto lock = interpreter_function<int (*)()>("PyGILState_Ensure");
  const auto unlock = interpreter_function<void (*)(int)>("PyGILState_Release");
  const auto run = interpreter_function<int (*)(const char*, void*)>("PyRun_SimpleStringFlags");
  if (is_running == nullptr || thread_state == nullptr || lock == nullptr || unlock == nullptr ||
      run == nullptr || is_running() == 0 || thread_state() == nullptr)
    return;
  const auto address = std::to_string(reinterpret_cast<std::uintptr_t>(&python_seeded));
  const auto code =
      replaced(replaced(kSeedingProgram, "ADDRESS", address), "ASK", ask ? "True" : "False");
  const int state = lock();
  run(code.c_str(), nullptr);
  unlock(state);
}

}  // namespace

void watch_host_seeding() {
  if (!seen().started.exchange(true)) forget_host_seeding();
  run_python(/*ask=*/false);
}

std::optional<HostSeeding> find_host_seeding() {
  if (!seen().asked.exchange(true)) run_python(/*ask=*/true);
  const std::lock_guard lock(seen().mutex);
  if (seen().python) return seen().python;
  if (torch_seed() != seen().torch_seed)
    return HostSeeding{.generator = "torch's host generator", .stack = {}};
  return std::nullopt;
}

std::mutex& host_seeding_lock_for_fork() noexcept { return seen().mutex; }

void forget_host_seeding() {
  const std::lock_guard lock(seen().mutex);
  seen().python.reset();
  seen().torch_seed = torch_seed();
}

}  // namespace anyaccel::backends::sim::checking
