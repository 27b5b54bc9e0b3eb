// Page-locked host memory: counted, placed on a NUMA node, reused, limited. Knows no torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace anyaccel::ops::pin {

/// What the pool asks of the system; tests put their own in its place. The functions return 0 or an
/// errno.
class System {
 public:
  virtual ~System() = default;
  /// Null when there are no addresses or no memory. Called by several threads at once, as all of
  /// these.
  virtual void* map(std::size_t bytes) noexcept;
  virtual void unmap(void* address, std::size_t bytes) noexcept;
  virtual int lock(void* address, std::size_t bytes) noexcept;
  virtual int bind(void* address, std::size_t bytes, int node) noexcept;
  virtual int node_count() const noexcept;
  virtual int current_node() const noexcept;          ///< where this thread runs now
  virtual std::uint64_t lock_limit() const noexcept;  ///< RLIMIT_MEMLOCK
};

/// All in bytes or calls since the pool was made.
struct Statistics {
  std::int64_t used_bytes = 0;  ///< in blocks that somebody holds
  std::int64_t used_peak = 0;
  std::int64_t held_bytes = 0;  ///< locked, or being locked; free blocks too
  std::int64_t held_peak = 0;
  std::int64_t limit =
      0;  ///< highest held_bytes that the pool allows itself; 0: no limit but the system's
  std::int64_t taken = 0;      ///< allocations
  std::int64_t reused = 0;     ///< of those, served without the system
  std::int64_t misplaced = 0;  ///< blocks that the system would not put on the wanted node
};

/// One for a process: `shared()`. Thread-safe; a thread that waits for the system to lock holds up
/// nobody. Memory is not inherited as locked by fork().
class Pool {
 public:
  explicit Pool(std::unique_ptr<System> system = std::make_unique<System>());
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// The process's pool, with the limit of ANYACCEL_PIN_MEMORY_LIMIT (throws `invalid_argument`
  /// when that makes no sense).
  static Pool& shared();

  /// Page-aligned, locked, uninitialized memory on the NUMA node that this thread runs on; null for
  /// 0 bytes. Throws `out_of_memory`, naming the limit that was met.
  void* allocate(std::size_t bytes);
  /// Says that the owner wants it no more: contains() is false from now on, and the statistics
  /// count it as free. The memory stays as it is until give_back(). False when the address does not
  /// begin a block in use.
  bool retire(void* address);
  /// Nobody uses the memory any more; it waits for the next allocation.
  void give_back(void* address) noexcept;
  /// True when all these bytes are in one block in use.
  bool contains(const void* address, std::size_t bytes) const;
  /// Unlocks and returns free blocks to the system.
  void trim();
  void set_limit(std::int64_t bytes);
  Statistics statistics() const;
  /// Why the last misplaced block was; empty when none was.
  std::string placement_problem() const;

 private:
  struct Block {
    std::size_t size = 0;
    std::size_t asked = 0;
    int node = 0;
    bool used = false;
    bool retired = false;
  };
  std::optional<std::uintptr_t> reuse(std::size_t size, int node);
  struct New;
  New ask_system(std::size_t size, int node) noexcept;
  std::uintptr_t lock_new(std::unique_lock<std::mutex>& lock, std::size_t size, int node);
  void trim_locked();
  [[noreturn]] void fail(std::size_t bytes, int error) const;

  std::unique_ptr<System> system_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  Statistics statistics_;
  std::string placement_problem_;
};

/// "8GiB", "512MiB", "1000000" to bytes; `invalid_argument` for another text.
std::int64_t parse_bytes(const std::string& text);

}  // namespace anyaccel::ops::pin
