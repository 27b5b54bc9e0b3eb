// A pool of page-locked host memory, placed on NUMA nodes. Reuses blocks, keeps statistics and
// enforces a limit. Independent of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace anyaccel::ops::pin {

/// The pool's interface to the system, which tests replace. All functions may be called
/// concurrently. lock() and bind() return 0 or an errno.
class System {
 public:
  virtual ~System() = default;
  /// Returns null if there is not enough address space or memory.
  virtual void* map(std::size_t bytes) noexcept;
  virtual void unmap(void* address, std::size_t bytes) noexcept;
  virtual int lock(void* address, std::size_t bytes) noexcept;
  virtual int bind(void* address, std::size_t bytes, int node) noexcept;
  virtual int node_count() const noexcept;
  virtual int current_node() const noexcept;          ///< NUMA node on which this thread runs
  virtual std::uint64_t lock_limit() const noexcept;  ///< value of RLIMIT_MEMLOCK
};

/// Sizes are in bytes. The other members count calls since the pool was created.
struct Statistics {
  std::int64_t used_bytes = 0;  ///< size of the blocks in use
  std::int64_t used_peak = 0;
  std::int64_t held_bytes =
      0;  ///< size of all memory that is locked or being locked, including free blocks
  std::int64_t held_peak = 0;
  /// Maximum of held_bytes; 0 means that only the system's limit applies.
  std::int64_t limit = 0;
  std::int64_t taken = 0;   ///< number of allocations
  std::int64_t reused = 0;  ///< number of allocations served from free blocks
  std::int64_t misplaced =
      0;  ///< number of blocks that the system did not place on the requested node
};

/// A pool of page-locked memory. Usually there is one per process, `shared()`. Thread-safe. Threads
/// do not block each other while the system locks memory. Children do not inherit memory locks
/// across fork().
class Pool {
 public:
  explicit Pool(std::unique_ptr<System> system = std::make_unique<System>());
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Returns the process's pool, limited by ANYACCEL_PIN_MEMORY_LIMIT. Throws `invalid_argument` if
  /// the variable is invalid.
  static Pool& shared();

  /// Allocates page-aligned, locked, uninitialized memory on the NUMA node of this thread. Returns
  /// null for 0 bytes. Throws `out_of_memory`, naming the limit that was reached.
  void* allocate(std::size_t bytes);
  /// Marks a block as free: contains() then returns false for it, and the statistics no longer
  /// count it as used. The memory stays valid until give_back(). Returns false if the address is
  /// not the start of a block in use.
  bool retire(void* address);
  /// Makes a block available for the next allocation.
  void give_back(void* address) noexcept;
  /// Returns true if the whole range is within one block that is in use.
  bool contains(const void* address, std::size_t bytes) const;
  /// Returns free blocks to the system.
  void trim();
  void set_limit(std::int64_t bytes);
  Statistics statistics() const;
  /// Returns the reason why the system did not place the most recent misplaced block on the
  /// requested node, or an empty string if no block was misplaced.
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

/// Parses sizes such as "8GiB", "512MiB" or "1000000". Throws `invalid_argument` for any other
/// text.
std::int64_t parse_bytes(const std::string& text);

}  // namespace anyaccel::ops::pin
