// Collectives over shared memory, on buffers passed as raw pointers. Does not use torch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/shm/memory.h"
#include "comm/shm/reduce.h"

namespace anyaccel::ops::shm {

struct Options {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< time limit for each operation
  std::size_t chunk_bytes =
      0;  ///< size of a chunk; 0 means ANYACCEL_SHM_CHUNK_KB, or 128 KiB if unset
  std::function<void()> before_look =
      {};  ///< called before a waiting rank checks for dead peers; for tests
};
inline constexpr int kMaxRanks = 4095;

/// Returns the size of the group's shared memory. The memory must be zero-initialized, and one rank
/// must call prepare().
std::size_t bytes_for(const Options& options);
void prepare(void* memory, const Options& options, const std::string& token);
bool has_token(const void* memory, const std::string& token) noexcept;

/// Returns the size of the data kept per rank.
std::size_t place_bytes() noexcept;

/// A function that a rank calls repeatedly while it waits for another rank. It must take less than
/// a microsecond.
struct Idle {
  void (*call)(void*) = nullptr;
  void* data = nullptr;
};

/// One rank of a group. All ranks must call the same operations with the same sizes in the same
/// order; a mismatch throws `invalid_argument`. Except for abort(), only one thread at a time may
/// use an object. Sizes are 64-bit. `in` may be the same buffer as `out`, but the two must not
/// overlap partially. Results are bitwise identical on all ranks.
///
/// If a peer is dead, every rank throws `unavailable`; if a peer is late, every rank throws
/// `timeout`. The group is then unusable, and further calls throw the same error. Not usable in a
/// forked child.
class Communicator {
 public:
  /// Takes the rank's place in memory that has been initialized by prepare().
  Communicator(std::shared_ptr<const Memory> memory, const Options& options);
  /// Tells the other ranks that this rank has left.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Throws `unsupported` if can_reduce() is false.
  void all_reduce(const void* in, void* out, std::size_t count, Kind kind, Reduce reduce);
  /// Applies to later operations, during which `idle.data` must stay valid.
  void set_idle(const Idle& idle) noexcept { idle_ = idle; }
  /// Applies to later operations.
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  bool failed() const noexcept { return failed_; }
  /// Makes operations of all ranks throw `unavailable`, including operations that are in progress.
  /// May be called from any thread, even while another thread runs an operation on this object.
  void abort() noexcept;

  /// `out` receives size() blocks of `bytes` bytes each, in rank order.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// `in` has size() blocks of `count` elements each; `out` receives this rank's reduced block.
  void reduce_scatter(const void* in, void* out, std::size_t count, Kind kind, Reduce reduce);
  /// Like the other operations, returns only after all ranks have called it. This detects ranks
  /// that pass different sources; they get an error.
  void broadcast(void* data, std::size_t bytes, int source);
  void barrier();

 private:
  struct Shared;
  struct Place;
  friend std::size_t place_bytes() noexcept;
  enum class Call : std::uint32_t {
    all_reduce = 1,
    all_gather,
    reduce_scatter,
    broadcast,
    barrier
  };

  char* slot(int rank, std::uint32_t round) const noexcept;
  Place& place(int rank) const noexcept;
  /// Starts a call: checks that the group is usable, and records the call so that ranks can compare
  /// it.
  void begin(Call call, std::size_t bytes, std::uint32_t detail);
  /// Waits until no rank still reads the data that this rank wrote four rounds ago.
  void wait_until_free(std::uint32_t round);
  void post(std::uint32_t round) noexcept;
  void wait_for(int rank, std::uint32_t round);
  void wait_slowly(int rank, std::uint32_t round);
  void choose_spin() noexcept;
  void wait_for_all(std::uint32_t round);
  void check_same(int rank, std::uint32_t round);
  void check_peers(std::uint32_t round);
  /// Describes the call that a rank made in a round.
  std::string call_of(int rank, std::uint32_t round) const;
  [[noreturn]] void fail(std::uint32_t why, int rank, const std::string& text = {});
  /// Publishes a failure to all ranks, unless there already is one, and wakes them.
  void publish(std::uint32_t why, const std::string& text) noexcept;
  [[noreturn]] void tell() const;
  void reduce_whole(const char* in, char* out, std::size_t count, Kind kind, Reduce reduce);
  void reduce_in_parts(const char* in, char* out, std::size_t count, Kind kind, Reduce reduce);
  void fold(Kind kind, Reduce reduce, char* out, std::size_t count);

  std::shared_ptr<const Memory> memory_;
  int rank_;
  int size_;
  std::size_t chunk_;
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds spin_{0};  // set at the first long wait, when all ranks have joined
  Shared* shared_;
  char* slots_;
  std::uint32_t round_ = 0;
  std::uint32_t what_ = 0;
  std::uint32_t call_ = 0;  // operation and its details, for messages
  std::uint64_t bytes_ = 0;
  const char* name_ = "";
  bool failed_ = false;
  unsigned forks_;
  std::uint64_t process_;
  std::vector<std::uint32_t> seen_;   // last known round of each rank
  std::vector<const void*> sources_;  // inputs of one reduction
  std::function<void()> before_look_;
  Idle idle_;
};

/// An all-gather of strings: returns the strings of all ranks. All ranks must call it the same
/// number of times. A string has at most kMaxText bytes.
using Exchange = std::function<std::vector<std::string>(const std::string& mine)>;
inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxText = kMaxPath + 128;

/// A communicator, or the reason why there is none. All ranks get the same result.
struct Connected {
  std::unique_ptr<Communicator> communicator;
  std::string reason;
};

/// Creates shared memory and opens it on every rank. Ranks are on one node if they can open the
/// memory; host names do not matter. If any rank cannot open it, all ranks get the reason. Throws
/// `invalid_argument` on all ranks if ANYACCEL_SHM_DIR is on a network file system.
Connected connect(const Options& options, const Exchange& exchange);

}  // namespace anyaccel::ops::shm
