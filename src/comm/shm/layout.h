// What lies in a group's shared memory: who is there, the words that ranks wait on, and each rank's
// slots for data.
#pragma once

#include <array>
#include <chrono>

#include "comm/shm/communicator.h"
#include "comm/shm/futex_word.h"

namespace anyaccel::ops::shm {

/// A rank writes into one slot while the others may still read three.
inline constexpr std::uint32_t kSlots = 4;
inline constexpr std::size_t kCpuWords = 16;
inline constexpr std::size_t kMaxWords = 256;
inline constexpr std::size_t kLine = 128;  // two cache lines, because they are fetched in pairs
inline constexpr std::size_t kWholeBytes =
    std::size_t{16} * 1024;  // up to here one round is faster than two

void spin_pause() noexcept;

/// Whether round `a` comes after round `b`; numbers wrap.
inline bool after(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b) > 0;
}

/// The CPUs that this thread may run on; none where the system does not say.
std::array<std::uint64_t, kCpuWords> usable_cpus() noexcept;
std::size_t chunk_bytes_of(const Options& options);
std::size_t slots_offset(int size);

struct alignas(kLine) Communicator::Place {
  static constexpr std::uint32_t kHere = 1;
  static constexpr std::uint32_t kGone = 2;
  // What others look at in every operation, in one cache line.
  FutexWord posted;
  std::atomic<std::uint32_t> what[kSlots];
  // What they look at when they wait long.
  alignas(64) std::atomic<std::uint32_t> state;
  std::atomic<std::uint64_t> process;
  std::atomic<std::uint64_t> cpus[kCpuWords];  // that the rank may run on
  // What was called, which they look at when `what` differs.
  alignas(64) std::atomic<std::uint32_t> call[kSlots];
  std::atomic<std::uint64_t> bytes[kSlots];
};

struct alignas(kLine) Communicator::Shared {
  char token[32];
  std::atomic<std::uint32_t> claimed;  // by the first who saw a failure; it writes the text
  std::atomic<std::uint32_t> failure;  // 0, or why
  char text[kMaxWords];
  Place* places() noexcept { return reinterpret_cast<Place*>(this + 1); }
};

}  // namespace anyaccel::ops::shm
