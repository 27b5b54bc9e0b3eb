// Detects unordered accesses to the same memory on different streams, and memory that is freed
// while work may still use it. Streams are identified by number and memory by address. Does not use
// torch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/sim/check/clocks.h"
#include "backends/sim/check/rows.h"

namespace anyaccel::backends::sim::checking {

/// Addresses in a call stack, innermost first.
using Frames = std::vector<void*>;

struct Stack;
/// Returns the caller's stack.
using StackFunction = std::shared_ptr<const Stack> (*)();

/// A memory pool that graphs allocate from; 0 is the default pool.
using Pool = std::uint64_t;

/// One tensor that a kernel accesses.
struct Touch {
  std::uintptr_t storage = 0;  ///< address of the memory that contains the tensor
  std::size_t bytes = 0;       ///< size of that memory
  Region region;
  bool written = false;
  std::shared_ptr<Rows> rows = nullptr;  ///< null: all rows
};

/// One recorded access, with its op, stream and time.
struct Use {
  const char* op = "";
  StreamId stream = 0;
  Time time = 0;
  ThreadId thread = -1;  ///< the thread that launched it; -1 for an open thread
  Time thread_time = 0;
  bool written = false;
  bool replayed = false;  ///< true for work that a graph replayed
  Region region;
  std::shared_ptr<Rows> rows = nullptr;  ///< the rows of the region that are accessed; null: all
  std::shared_ptr<const Frames> frames;  ///< the stack of the launch, if stacks are stored
};

struct Conflict {
  enum Kind {
    /// `now` and `before` access the same bytes without a defined order, and at least one writes.
    unordered,
    /// The memory of `before` was freed and returned to its stream. The stream's next work, `now`,
    /// may reuse the memory while `before` may still use it.
    freed_in_use,
    /// The replayed graph uses memory that was freed after the capture. `before` is that use.
    freed_capture,
    /// `now` uses memory that was allocated on another stream, and does not wait for earlier work
    /// on that stream. `before` is such work, which may still use a freed tensor in the same
    /// memory.
    reused,
    /// Like unordered, but the streams order the two accesses in this run. They do so only because
    /// one of two host threads happened to launch first, and nothing orders the threads.
    unordered_threads,
    /// `now` reads memory that has not been written since its allocation.
    uninitialized,
  };
  Kind kind = unordered;
  Use now, before;
  std::size_t bytes = 0;                       ///< size of the memory
  std::shared_ptr<const Stack> freed_at = {};  ///< the stack of the free, for freed_in_use
};

/// A tracked block of memory.
struct Memory {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool live = false;
  std::shared_ptr<const Stack> allocated_at = {};  ///< stack of the allocation, if it was stored
  std::optional<Use> last;  ///< the last write, or the last access if there was no write
};

/// Thread-safe.
class Detector {
 public:
  using Conflicts = std::vector<Conflict>;

  Conflicts launch(StreamId stream, const char* op, const std::vector<Touch>& touches,
                   std::shared_ptr<const Frames> frames = nullptr);
  /// Like launch(), for work that `graph` captures. The accesses take effect at each replay(). The
  /// graph allocates from `pool`.
  Conflicts capture(const void* graph, Pool pool, StreamId stream, const char* op,
                    const std::vector<Touch>& touches);
  Conflicts replay(const void* graph, StreamId stream);
  void end_graph(const void* graph);

  /// `owner`: the stream whose work may use the memory from now on, and also after it is freed; -1
  /// for host memory. Memory from a graph's pool still belongs to the graph after the tensors in it
  /// are freed.
  /// `stack`: the stack of the allocation, or null.
  void allocate(std::uintptr_t address, std::size_t bytes, StreamId owner, Pool pool = 0,
                std::shared_ptr<const Stack> stack = nullptr);
  /// From now on, also reports reads of device memory that has not been written since its
  /// allocation.
  void check_uninitialized() noexcept { uninitialized_ = true; }
  /// `stack` is called if the memory is freed while work may still use it; may be null.
  void free(std::uintptr_t address, StackFunction stack = nullptr);
  void record_stream(std::uintptr_t address, StreamId stream);

  void record(std::uint64_t event, StreamId stream);
  void wait(std::uint64_t event, StreamId stream);
  void host_waits_for_event(std::uint64_t event);
  void host_waits_for_stream(StreamId stream);
  Time now(StreamId stream) const;
  bool known_by_any(StreamId stream, Time time) const;

  std::optional<Memory> memory_at(std::uintptr_t address) const;
  /// Returns the total size of all live blocks in [low, high), and the largest of these blocks: at
  /// most `most`, in descending order of size.
  std::pair<std::size_t, std::vector<Memory>> live_in(std::uintptr_t low, std::uintptr_t high,
                                                      std::size_t most) const;

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  struct Block {
    std::size_t bytes = 0;
    StreamId owner = -1;
    std::uint64_t number = 0;  ///< counts allocations and frees
    bool live = false;
    bool written = false;  ///< whether the block was written since its allocation
    Pool pool = 0;
    std::shared_ptr<const Stack> stack;
    std::vector<StreamId> recorded;
    std::vector<Use> uses;
    std::vector<Use> former;  ///< uses of freed tensors in this memory that may still be running
  };
  struct Freed {
    Use use;
    std::size_t bytes = 0;
    std::uint64_t number = 0;
    std::shared_ptr<const Stack> stack;
  };
  struct Former {
    std::uintptr_t low = 0, high = 0;  ///< the freed memory
    Use use;
  };
  struct Captured {
    Touch touch;
    std::uint64_t number = 0;  ///< the block's number at capture
    Pool pool = 0;  ///< the block's pool at capture; the allocator may split or merge blocks later
    std::vector<Use> uses;
  };
  struct Graph {
    Pool pool = 0;
    std::map<std::uintptr_t, Captured> blocks;  ///< keyed by address at the time of the capture
  };
  using Blocks = std::map<std::uintptr_t, Block>;

  Blocks::iterator find(std::uintptr_t address);
  Blocks::const_iterator find(std::uintptr_t address) const;
  Block& block_of(const Touch& touch);
  void add(std::vector<Use>& uses, Use use, std::size_t bytes, Conflicts& found);
  void check_freed(const Use& use, const Block& block, Conflicts& found);
  void check_former(const Use& use, Block& block, Conflicts& found);
  void keep_former(std::uintptr_t address, const Block& block);
  void take_former(std::uintptr_t address, Block& block);
  bool in_use(Pool pool) const;
  static Memory describe(const Blocks::value_type& block);

  bool uninitialized_ = false;
  mutable std::mutex mutex_;
  Clocks clocks_;
  Blocks blocks_;
  std::uint64_t number_ = 0;
  std::unordered_map<StreamId, std::vector<Freed>>
      freed_;  ///< keyed by the stream that owns the freed memory
  std::unordered_map<StreamId, std::vector<Former>> former_;  ///< keyed by the block's owner
  std::unordered_map<const void*, Graph> graphs_;
};

}  // namespace anyaccel::backends::sim::checking
