// Layout of a group's shared memory: the state of each rank, the futex words on which ranks wait,
// and each rank's data slots.
#pragma once

#include <array>
#include <chrono>

#include "comm/shm/communicator.h"
#include "comm/shm/futex_word.h"

namespace anyaccel::ops::shm {

/// Number of data slots per rank. A rank can write to one slot while the others still read the
/// other three.
inline constexpr std::uint32_t kSlots = 4;
inline constexpr std::size_t kCpuWords = 16;
inline constexpr std::size_t kMaxWords = 256;
inline constexpr std::size_t kLine =
    128;  // two cache lines, because the prefetcher loads cache lines in pairs
inline constexpr std::size_t kWholeBytes =
    std::size_t{16} * 1024;  // up to this size, one round is faster than two

void spin_pause() noexcept;

/// Returns true if round `a` comes after round `b`. Round numbers wrap around.
inline bool after(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b) > 0;
}

/// Returns the CPUs on which this thread may run, or an empty set if they are unknown.
std::array<std::uint64_t, kCpuWords> usable_cpus() noexcept;
std::size_t chunk_bytes_of(const Options& options);
std::size_t slots_offset(int size);

struct alignas(kLine) Communicator::Place {
  static constexpr std::uint32_t kHere = 1;
  static constexpr std::uint32_t kGone = 2;
  // Read by other ranks in every operation; fits in one cache line.
  FutexWord posted;
  std::atomic<std::uint32_t> what[kSlots];
  // Read by other ranks during long waits.
  alignas(64) std::atomic<std::uint32_t> state;
  std::atomic<std::uint64_t> process;
  std::atomic<std::uint64_t> cpus[kCpuWords];  // CPUs that the rank may run on
  // Details of the call. Other ranks read them if `what` differs.
  alignas(64) std::atomic<std::uint32_t> call[kSlots];
  std::atomic<std::uint64_t> bytes[kSlots];
};

struct alignas(kLine) Communicator::Shared {
  char token[32];
  std::atomic<std::uint32_t>
      claimed;  // set by the first rank that detects a failure; that rank writes `text`
  std::atomic<std::uint32_t> failure;  // 0, or a code for the kind of failure
  char text[kMaxWords];
  Place* places() noexcept { return reinterpret_cast<Place*>(this + 1); }
};

}  // namespace anyaccel::ops::shm
