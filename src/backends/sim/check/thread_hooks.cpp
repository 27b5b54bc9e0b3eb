#include "backends/sim/check/thread_hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "backends/sim/check/host_threads.h"
#include "backends/sim/check/imports.h"
#include "backends/sim/check/python_queues.h"

namespace anyaccel::backends::sim::checking {

namespace {

// The interpreter's locks are semaphores. Its global lock is a mutex, which is not replaced: it
// would order everything.

int post(sem_t* lock) {
  release_to(lock);
  return ::sem_post(lock);
}

int acquired(sem_t* lock, int result) {
  const int error = errno;
  if (result == 0) acquire_from(lock);
  errno = error;
  return result;
}

int wait(sem_t* lock) { return acquired(lock, ::sem_wait(lock)); }
int try_wait(sem_t* lock) { return acquired(lock, ::sem_trywait(lock)); }
int timed_wait(sem_t* lock, const timespec* until) {
  return acquired(lock, ::sem_timedwait(lock, until));
}
int clock_wait(sem_t* lock, clockid_t clock, const timespec* until) {
  return acquired(lock, ::sem_clockwait(lock, clock, until));
}

struct Start {
  void* (*run)(void*);
  void* argument;
  std::unique_ptr<Clock> inherited;
};

void* run_child(void* data) {
  std::unique_ptr<Start> start(static_cast<Start*>(data));
  if (start->inherited != nullptr) adopt(*start->inherited);
  auto* run = start->run;
  auto* argument = start->argument;
  start.reset();
  return run(argument);
}

int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
           void* argument) {
  auto start = std::make_unique<Start>();
  *start = {.run = run, .argument = argument, .inherited = start_of_child()};
  const int error = ::pthread_create(thread, attributes, &run_child, start.get());
  if (error == 0) static_cast<void>(start.release());
  return error;
}

/// The interpreter loads extension modules, which may load observed libraries.
void* open_library(const char* file, int flags) {
  void* library = ::dlopen(file, flags);
  if (library != nullptr) hook_threads();
  return library;
}

int join(pthread_t thread, void** result) {
  const int error = ::pthread_join(thread, result);
  if (error == 0) acquire_from(end_of(thread));
  return error;
}

// Mutexes in torch and in AnyAccel's collectives.

int lock(pthread_mutex_t* mutex) {
  const int error = ::pthread_mutex_lock(mutex);
  if (error == 0) acquire_library_mutex(mutex);
  return error;
}

int try_lock(pthread_mutex_t* mutex) {
  const int error = ::pthread_mutex_trylock(mutex);
  if (error == 0) acquire_library_mutex(mutex);
  return error;
}

int unlock(pthread_mutex_t* mutex) {
  release_library_mutex(mutex);
  return ::pthread_mutex_unlock(mutex);
}

template <typename Wait>
int in_wait(pthread_mutex_t* mutex, Wait wait_for_it) {
  release_library_mutex(mutex);
  const int error = wait_for_it();
  acquire_library_mutex(mutex);
  return error;
}

int condition_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return in_wait(mutex, [&] { return ::pthread_cond_wait(condition, mutex); });
}
int condition_timed_wait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return in_wait(mutex, [&] { return ::pthread_cond_timedwait(condition, mutex, until); });
}
int condition_clock_wait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                         const timespec* until) {
  return in_wait(mutex, [&] { return ::pthread_cond_clockwait(condition, mutex, clock, until); });
}

/// std::condition_variable::wait(), which libstdc++ defines.
void standard_wait(std::condition_variable* condition, std::unique_lock<std::mutex>& held) {
  in_wait(held.mutex()->native_handle(), [&] {
    condition->wait(held);
    return 0;
  });
}

template <typename Function>
void* untyped(Function* function) {
  return reinterpret_cast<void*>(function);
}

const Replacement kOfInterpreter[] = {{"sem_post", untyped(&post)},
                                      {"sem_wait", untyped(&wait)},
                                      {"sem_trywait", untyped(&try_wait)},
                                      {"sem_timedwait", untyped(&timed_wait)},
                                      {"sem_clockwait", untyped(&clock_wait)},
                                      {"pthread_create", untyped(&create)},
                                      {"pthread_join", untyped(&join)},
                                      {"dlopen", untyped(&open_library)}};
const Replacement kOfLibraries[] = {
    {"pthread_mutex_lock", untyped(&lock)},
    {"pthread_mutex_trylock", untyped(&try_lock)},
    {"pthread_mutex_unlock", untyped(&unlock)},
    {"pthread_cond_wait", untyped(&condition_wait)},
    {"pthread_cond_timedwait", untyped(&condition_timed_wait)},
    {"pthread_cond_clockwait", untyped(&condition_clock_wait)},
    {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", untyped(&standard_wait)}};

/// The load address of the Python interpreter; nullopt in processes without one, or if its locks
/// cannot be observed.
std::optional<std::uintptr_t> interpreter() {
  const auto version = reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  if (version == nullptr) return std::nullopt;
  int major = 0, minor = 0;
  if (std::sscanf(version(), "%d.%d", &major, &minor) != 2 || major != 3 || minor < 10 ||
      minor > 13 || std::strstr(version(), "free-threading") != nullptr)
    return std::nullopt;
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(version), &info, reinterpret_cast<void**>(&map),
                RTLD_DL_LINKMAP) == 0)
    return std::nullopt;
  if (map == nullptr) return std::nullopt;
  return map->l_addr;
}

bool is_observed_library(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.starts_with("libtorch") || file.starts_with("libc10") ||
         file.starts_with("libanyaccel_comm");
}

}  // namespace

void hook_threads() {
  const auto python = interpreter();
  if (!python) return;
  {
    static std::mutex mutex;
    static std::set<std::string> done;
    const std::lock_guard held(mutex);
    replace_imports([&](const LoadedObject& object) -> std::span<const Replacement> {
      const bool observed = object.base == *python || is_observed_library(object.path);
      if (!observed || !done.insert(object.path).second) return {};
      if (object.base == *python) return kOfInterpreter;
      return kOfLibraries;
    });
  }
  track_threads();
  // Called without the lock, because Python may load an extension module and so reenter this
  // function.
  watch_python_queues(&acquire_from, &release_to);
}

}  // namespace anyaccel::backends::sim::checking
