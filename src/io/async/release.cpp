#include "io/async/release.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/async/engine.h"

namespace anyaccel::ops::aio {

namespace {

// Delay before the release thread releases the memory. Usually, Engine::wait() has already released
// it on the waiting thread.
constexpr std::chrono::milliseconds kWait{50};

struct Releases {
  const int process = ::getpid();
  std::mutex mutex;
  std::condition_variable some;
  std::shared_ptr<Request>
      first;  // head of a linked list, so that adding a request does not allocate

  void run() {
    for (;;) {
      std::shared_ptr<Request> chain;
      {
        std::unique_lock lock(mutex);
        some.wait(lock, [this] { return first != nullptr; });
      }
      std::this_thread::sleep_for(kWait);
      {
        const std::lock_guard lock(mutex);
        chain.swap(first);
      }
      while (chain != nullptr) {
        chain->release();
        chain = chain->take_next();
      }
    }
  }
};

std::mutex& start_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

std::atomic<Releases*> releases{nullptr};

}  // namespace

void ensure_release_thread() {
  const std::lock_guard lock(start_mutex());
  auto* now = releases.load();
  if (now != nullptr && now->process == ::getpid()) return;
  // In a forked child, the parent's object has no thread, and its state is undefined.
  auto made = std::make_unique<Releases>();
  std::thread([state = made.get()] { state->run(); }).detach();
  releases = made.release();  // never destroyed, because its thread never exits
}

void release_later(std::shared_ptr<Request> request) noexcept {
  auto& state = *releases.load();
  {
    const std::lock_guard lock(state.mutex);
    request->set_next(std::move(state.first));
    state.first = std::move(request);
  }
  state.some.notify_one();
}

}  // namespace anyaccel::ops::aio
