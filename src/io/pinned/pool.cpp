#include "io/pinned/pool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "anyaccel/error.h"

namespace anyaccel::ops::pin {

namespace {

constexpr const char* kWhere = "new_cpu_locked_tensor";

std::size_t whole_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::string in_bytes(std::int64_t bytes) { return std::to_string(bytes) + " bytes"; }

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  std::int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(rest, text.data() + text.size());
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "KiB") shift = 10;
  if (unit == "MiB") shift = 20;
  if (unit == "GiB") shift = 30;
  if (unit == "TiB") shift = 40;
  if (failure != std::errc{} || number < 0 || shift < 0 ||
      number > std::numeric_limits<std::int64_t>::max() >> shift)
    throw Error(ErrorCode::invalid_argument, "pin_memory",
                {.what = "invalid pinned-memory limit",
                 .got = text,
                 .want = "a number of bytes, optionally with the suffix KiB, MiB, GiB or TiB",
                 .hint = "set ANYACCEL_PIN_MEMORY_LIMIT to such a size"});
  return number << shift;
}

Pool::Pool(std::unique_ptr<System> system) : system_(std::move(system)) {}

Pool::~Pool() {
  for (const auto& [address, block] : blocks_) system_->unmap(pointer(address), block.size);
}

Pool& Pool::shared() {
  // Never destroyed, because tensors may outlive all other static objects.
  static auto* pool = [] {
    auto made = std::make_unique<Pool>();
    if (const char* limit = std::getenv("ANYACCEL_PIN_MEMORY_LIMIT");
        limit != nullptr && *limit != '\0')
      made->set_limit(parse_bytes(limit));
    return made.release();
  }();
  return *pool;
}

void* Pool::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max() / 2))
    fail(bytes, ENOMEM);
  const auto size = whole_pages(bytes);
  std::unique_lock lock(mutex_);
  const int node = system_->current_node();
  auto address = reuse(size, node);
  if (address)
    ++statistics_.reused;
  else
    address = lock_new(lock, size, node);
  auto& block = blocks_.at(*address);
  block.asked = bytes;
  block.used = true;
  block.retired = false;
  ++statistics_.taken;
  statistics_.used_bytes += static_cast<std::int64_t>(block.size);
  statistics_.used_peak = std::max(statistics_.used_peak, statistics_.used_bytes);
  return pointer(*address);
}

/// Returns the smallest free block on the node that is large enough and wastes at most a quarter of
/// its size.
std::optional<std::uintptr_t> Pool::reuse(std::size_t size, int node) {
  const std::pair<const std::uintptr_t, Block>* best = nullptr;
  for (const auto& entry : blocks_) {
    const auto& block = entry.second;
    if (block.used || block.node != node || block.size < size || block.size - size > block.size / 4)
      continue;
    if (best == nullptr || block.size < best->second.size) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return best->first;
}

/// Results of the system calls for a new block. These calls run without the pool's lock, because
/// locking memory faults in all of its pages, which takes about a second for a few GiB.
struct Pool::New {
  void* address = nullptr;
  int error = 0;
  int bind_error = 0;
};

Pool::New Pool::ask_system(std::size_t size, int node) noexcept {
  New out{.address = system_->map(size)};
  if (out.address == nullptr) return {.error = ENOMEM};
  if (system_->node_count() > 1) out.bind_error = system_->bind(out.address, size, node);
  out.error = system_->lock(out.address, size);
  if (out.error != 0) system_->unmap(out.address, size);
  return out;
}

/// `lock` must hold the pool's mutex on entry. The mutex is released during system calls, and held
/// again on return.
std::uintptr_t Pool::lock_new(std::unique_lock<std::mutex>& lock, std::size_t size, int node) {
  const auto bytes = static_cast<std::int64_t>(size);
  const auto over = [&](std::int64_t more) {
    return statistics_.limit > 0 && statistics_.held_bytes + more > statistics_.limit;
  };
  if (over(bytes)) trim_locked();
  if (over(bytes)) fail(size, 0);
  // Count the bytes before releasing the mutex, so that concurrent threads cannot exceed the limit
  // together.
  statistics_.held_bytes += bytes;
  lock.unlock();
  auto block = ask_system(size, node);
  lock.lock();
  if (block.error != 0) {
    trim_locked();
    lock.unlock();
    block = ask_system(size, node);
    lock.lock();
  }
  // The limit may have changed in the meantime.
  if (block.error == 0 && over(0)) trim_locked();
  const bool refused = block.error == 0 && over(0);
  const auto give_back = [&] {
    if (block.error == 0) system_->unmap(block.address, size);
    statistics_.held_bytes -= bytes;
  };
  if (block.error != 0 || refused) {
    give_back();
    fail(size, block.error);
  }
  const auto key = reinterpret_cast<std::uintptr_t>(block.address);
  try {
    blocks_[key] = {.size = size, .node = node};
  } catch (...) {
    give_back();
    throw;
  }
  if (block.bind_error != 0) {
    ++statistics_.misplaced;
    placement_problem_ = "node " + std::to_string(node) + ": " + std::strerror(block.bind_error);
  }
  statistics_.held_peak = std::max(statistics_.held_peak, statistics_.held_bytes);
  return key;
}

void Pool::fail(std::size_t bytes, int error) const {
  const auto held = " while " + in_bytes(statistics_.held_bytes) + " are pinned";
  if (error == 0)
    throw Error(ErrorCode::out_of_memory, kWhere,
                {.what = "the pinned-memory limit would be exceeded",
                 .got = "a request for " + std::to_string(bytes) + " bytes" + held,
                 .want = "at most " + in_bytes(statistics_.limit) + " in total",
                 .hint = "free tensors, or raise ANYACCEL_PIN_MEMORY_LIMIT"});
  const auto limit = system_->lock_limit();
  const bool endless = limit == std::numeric_limits<std::uint64_t>::max();
  throw Error(ErrorCode::out_of_memory, kWhere,
              {.what = std::string("cannot lock memory: ") + std::strerror(error),
               .got = "a request for " + std::to_string(bytes) + " bytes" + held,
               .hint = endless ? "free memory on this machine or in its container"
                               : "raise RLIMIT_MEMLOCK, which is " + std::to_string(limit) +
                                     " bytes (`ulimit -l`, LimitMEMLOCK= for a service, --ulimit "
                                     "memlock= for a container)"});
}

bool Pool::retire(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == blocks_.end() || !found->second.used || found->second.retired) return false;
  found->second.retired = true;
  statistics_.used_bytes -= static_cast<std::int64_t>(found->second.size);
  return true;
}

void Pool::give_back(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == blocks_.end() || !found->second.used) return;
  if (!found->second.retired)
    statistics_.used_bytes -= static_cast<std::int64_t>(found->second.size);
  found->second.used = false;
}

bool Pool::contains(const void* address, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(begin);
  if (after == blocks_.begin()) return false;
  const auto& [start, block] = *std::prev(after);
  const auto offset = begin - start;
  return block.used && !block.retired && offset <= block.asked && bytes <= block.asked - offset;
}

void Pool::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void Pool::trim_locked() {
  std::erase_if(blocks_, [this](const auto& entry) {
    if (entry.second.used) return false;
    system_->unmap(pointer(entry.first), entry.second.size);
    statistics_.held_bytes -= static_cast<std::int64_t>(entry.second.size);
    return true;
  });
}

void Pool::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  statistics_.limit = bytes;
}

Statistics Pool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::string Pool::placement_problem() const {
  const std::lock_guard lock(mutex_);
  return placement_problem_;
}

}  // namespace anyaccel::ops::pin
