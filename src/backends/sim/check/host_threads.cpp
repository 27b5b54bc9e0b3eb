#include "backends/sim/check/host_threads.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/sim/fork.h"

namespace anyaccel::backends::sim::checking {

namespace {

std::atomic<bool> tracked{false};
/// In a forked child, another thread's spin lock may stay locked forever.
std::atomic<bool> forked{false};

/// Thread ids. When the id of an ended thread is reused, its time continues. So a clock that knows
/// the new thread also knows all launches of the old one.
struct Numbers {
  HeldAtFork mutex{ForkOrder::inner};
  std::vector<std::pair<ThreadId, Time>> unused;
  ThreadId next = 0;

  std::pair<ThreadId, Time> take() {
    const std::lock_guard lock(mutex);
    if (unused.empty()) return {next++, 1};
    const auto [id, time] = unused.back();
    unused.pop_back();
    return {id, time + 1};
  }
  void give_back(ThreadId id, Time time) {
    const std::lock_guard lock(mutex);
    unused.emplace_back(id, time);
  }
};

Numbers& numbers() {
  static auto* one = new Numbers;  // threads may end after static destruction
  return *one;
}

/// The clock that was last passed through a lock. The spin lock is held for a few nanoseconds and
/// never while the program's code runs.
struct Slot {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::atomic<bool> used{false};
  Clock clock;
  ThreadId last = -1;
  std::uint64_t last_version = 0;
};

class Held {
 public:
  explicit Held(Slot& slot) : slot_(slot) {
    while (slot_.busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Held() { slot_.busy.clear(std::memory_order_release); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Slot& slot_;
};

constexpr std::size_t kSlots = 1 << 14;
using Slots = std::array<Slot, kSlots>;

Slots& slots() {
  static auto* all = new Slots;
  return *all;
}

Slot& slot_of(const void* address, std::uintptr_t salt = 0) {
  const auto mixed = (reinterpret_cast<std::uintptr_t>(address) + salt) * 0x9E3779B97F4A7C15ULL;
  return slots()[mixed >> 50];
}

void number(HostThread& self, ThreadKind kind) {
  const auto [id, time] = numbers().take();
  self.kind = kind;
  self.id = id;
  self.clock.set_thread(id, time);
  ++self.version;
}

bool is_library() {
  char name[16] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::strncmp(name, "pt_autograd", 11) == 0 || std::strcmp(name, "anyaccel_comm") == 0;
}

void release(HostThread& self, Slot& slot) {
  if (self.id < 0) return;
  const Held held(slot);
  if (slot.last != self.id || slot.last_version != self.version) {
    slot.clock.join(self.clock);
    slot.used.store(true, std::memory_order_release);
  }
  self.passed = true;
  slot.last = self.id;
  slot.last_version = self.version;
}

void acquire(HostThread& self, Slot& slot) {
  if (self.id < 0 || !slot.used.load(std::memory_order_acquire)) return;
  const Held held(slot);
  if (slot.last == self.id && slot.last_version == self.version) return;
  if (self.clock.join(slot.clock)) ++self.version;
}

/// The thread's own HostThread, and whether its kind is known yet.
struct Own {
  HostThread thread;
  bool known = false;
  int looks = 0;  ///< how often the thread's name was looked up
  ~Own() {
    ended = true;
    if (thread.id < 0 || forked.load()) return;
    release(thread, slot_of(end_of(::pthread_self())));
    numbers().give_back(thread.id, thread.clock.thread(thread.id));
  }
  static thread_local bool ended;
};
thread_local bool Own::ended = false;

Own& own() {
  static thread_local Own one;
  return one;
}

/// Replaces own() after its destruction: the destructors of static and later thread_local objects
/// may still free device memory.
HostThread& ended_thread() {
  static thread_local HostThread* open = nullptr;
  if (open == nullptr) {
    // Never destroyed. The list keeps them reachable, so that they do not count as leaks.
    static auto* all = new std::vector<HostThread*>;
    static auto* mutex = new std::mutex;
    open = new HostThread;
    const std::lock_guard lock(*mutex);
    all->push_back(open);
  }
  return *open;
}

bool known_kind(Own& one) {
  if (::gettid() == ::getpid())
    number(one.thread, ThreadKind::program);
  else if (threads_are_tracked() && is_library())
    number(one.thread, ThreadKind::library);
  else
    return false;
  return one.known = true;
}

/// The thread that releases or acquires a lock; null if it has no clock. A library thread gets its
/// name only after it has used some locks.
HostThread* at_lock() {
  if (Own::ended || forked.load(std::memory_order_relaxed)) return nullptr;
  auto& one = own();
  if (one.known) return one.thread.id < 0 ? nullptr : &one.thread;
  constexpr int kMostLooks = 100;
  if (one.looks >= kMostLooks) return nullptr;
  ++one.looks;
  return known_kind(one) ? &one.thread : nullptr;
}

}  // namespace

std::uint64_t first_version() noexcept {
  static std::atomic<std::uint64_t> count{0};
  return ++count << 32;
}

HostThread& host_thread() {
  if (Own::ended) return ended_thread();
  auto& one = own();
  if (!one.known && !known_kind(one)) one.known = true;  // an open thread
  return one.thread;
}

void start_launch(HostThread& host) noexcept {
  if (host.id < 0 || !std::exchange(host.passed, false)) return;
  host.clock.set_thread(host.id, host.clock.thread(host.id) + 1);
  ++host.version;
}

void track_threads() noexcept {
  slots();
  static const int once = ::pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  static_cast<void>(once);
  tracked.store(true, std::memory_order_release);
}

bool threads_are_tracked() noexcept { return tracked.load(std::memory_order_acquire); }

std::unique_ptr<Clock> start_of_child() {
  auto& self = host_thread();
  if (self.id < 0) return nullptr;
  self.passed = true;
  return std::make_unique<Clock>(self.clock);
}

void adopt(const Clock& inherited) {
  auto& one = own();
  if (one.known) return;
  one.known = true;
  one.thread.clock = inherited;
  number(one.thread, ThreadKind::program);
}

const void* end_of(pthread_t thread) noexcept { return reinterpret_cast<const void*>(thread); }

void release_to(const void* address) noexcept {
  if (auto* self = at_lock()) release(*self, slot_of(address));
}

void acquire_from(const void* address) noexcept {
  if (auto* self = at_lock()) acquire(*self, slot_of(address));
}

// A mutex has two records: the knowledge of program threads, and that of library threads.
void release_library_mutex(const void* mutex) noexcept {
  auto* self = at_lock();
  if (self == nullptr) return;
  release(*self, slot_of(mutex, self->kind == ThreadKind::library ? 2 : 1));
}

void acquire_library_mutex(const void* mutex) noexcept {
  auto* self = at_lock();
  if (self == nullptr) return;
  acquire(*self, slot_of(mutex, 2));
  if (self->kind == ThreadKind::library) acquire(*self, slot_of(mutex, 1));
}

}  // namespace anyaccel::backends::sim::checking
