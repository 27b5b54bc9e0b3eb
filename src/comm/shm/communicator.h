// Collectives over shared memory, with pointers. Free of torch.
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
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< of one operation
  std::size_t chunk_bytes = 0;  ///< of one piece; 0: ANYACCEL_SHM_CHUNK_KB, otherwise 128 KiB
  std::function<void()> before_look =
      {};  ///< for tests: called when a rank that waits long looks for dead peers
};
inline constexpr int kMaxRanks = 4095;

/// The memory of a group of `size` ranks: what `bytes_for` says, zeroed, and prepared by one rank.
std::size_t bytes_for(const Options& options);
void prepare(void* memory, const Options& options, const std::string& token);
bool has_token(const void* memory, const std::string& token) noexcept;

/// Of what is kept of each rank.
std::size_t place_bytes() noexcept;

/// What a rank does while it waits for another one: called again and again, and takes less than a
/// microsecond.
struct Idle {
  void (*call)(void*) = nullptr;
  void* data = nullptr;
};

/// One rank of a group. Every rank calls the same operations with the same sizes in the same order;
/// a rank that does not is told
/// (`invalid_argument`). Calls of one object come from one thread at a time. Sizes are 64-bit; `in`
/// may be `out`, other overlaps may not be. Results have the same bits on every rank.
///
/// A peer that died gives `unavailable`, one that does not come in time `timeout`, on every rank;
/// the group is then of no use and says so (`invalid_state`). Not usable in a forked child.
class Communicator {
 public:
  /// Takes the rank's place in prepared memory.
  Communicator(std::shared_ptr<const Memory> memory, const Options& options);
  /// Tells the others that this rank has left.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// `unsupported` where can_reduce() says no.
  void all_reduce(const void* in, void* out, std::size_t count, Kind kind, Reduce reduce);
  /// Of the operations from now on. What it calls lives that long.
  void set_idle(const Idle& idle) noexcept { idle_ = idle; }
  /// Of the operations from now on.
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  bool failed() const noexcept { return failed_; }

  /// `out` has size() pieces of `bytes`, in the order of ranks.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// `in` has size() pieces of `count` elements; `out` gets the reduced piece of this rank.
  void reduce_scatter(const void* in, void* out, std::size_t count, Kind kind, Reduce reduce);
  /// Like the others it returns when all ranks have called it: so two that take different ranks for
  /// the source are told.
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
  /// Begins a call: checks that the group is usable and notes what is called.
  void begin(Call call, std::size_t bytes, std::uint32_t detail);
  /// Waits until nobody reads what this rank wrote four rounds ago.
  void wait_until_free(std::uint32_t round);
  void post(std::uint32_t round) noexcept;
  void wait_for(int rank, std::uint32_t round);
  void wait_slowly(int rank, std::uint32_t round);
  void choose_spin() noexcept;
  void wait_for_all(std::uint32_t round);
  void check_same(int rank, std::uint32_t round);
  void check_peers(std::uint32_t round);
  /// What a rank called in that round, in words.
  std::string call_of(int rank, std::uint32_t round) const;
  [[noreturn]] void fail(std::uint32_t why, int rank, const std::string& text = {});
  [[noreturn]] void tell() const;
  void reduce_whole(const char* in, char* out, std::size_t count, Kind kind, Reduce reduce);
  void reduce_in_parts(const char* in, char* out, std::size_t count, Kind kind, Reduce reduce);
  void fold(Kind kind, Reduce reduce, char* out, std::size_t count);

  std::shared_ptr<const Memory> memory_;
  int rank_;
  int size_;
  std::size_t chunk_;
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds spin_{0};  // chosen at the first long wait, when all ranks are there
  Shared* shared_;
  char* slots_;
  std::uint32_t round_ = 0;
  std::uint32_t what_ = 0;
  std::uint32_t call_ = 0;  // what was called, and with what, for messages
  std::uint64_t bytes_ = 0;
  const char* name_ = "";
  bool failed_ = false;
  unsigned forks_;
  std::uint64_t process_;
  std::vector<std::uint32_t> seen_;   // what each rank had posted when last looked at
  std::vector<const void*> sources_;  // of one reduction
  std::function<void()> before_look_;
  Idle idle_;
};

/// Gives every rank's text to every rank; all ranks call it equally often. Texts have at most
/// kMaxText bytes.
using Exchange = std::function<std::vector<std::string>(const std::string& mine)>;
inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxText = kMaxPath + 128;

/// A communicator, or why there is none; the same verdict on every rank.
struct Connected {
  std::unique_ptr<Communicator> communicator;
  std::string reason;
};

/// Makes memory and opens it on every rank. Whether ranks share a node is found by opening that
/// memory, never by name: where a rank cannot, all get the reason. `invalid_argument` on all ranks
/// when ANYACCEL_SHM_DIR is a network's folder.
Connected connect(const Options& options, const Exchange& exchange);

}  // namespace anyaccel::ops::shm
