// Waiting, posting and error handling of Communicator. The collectives are in collectives.cpp.
#include "comm/shm/communicator.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "anyaccel/error.h"
#include "comm/shm/layout.h"

namespace anyaccel::ops::shm {

namespace {

constexpr std::uint32_t kDied = 1;
constexpr std::uint32_t kLeft = 2;
constexpr std::uint32_t kLate = 3;
constexpr std::uint32_t kDiffers = 4;
constexpr std::uint32_t kAborted = 5;
constexpr auto kLook =
    std::chrono::milliseconds(20);  // how often a sleeping rank checks for dead peers

std::atomic<unsigned> forks{0};

unsigned forks_now() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

std::uint64_t this_process() {
  static const std::uint64_t mark =
      std::strtoull(random_token().substr(0, 16).c_str(), nullptr, 16);
  return mark ^ static_cast<std::uint64_t>(
                    ::getpid());  // include the PID, because forked children inherit `mark`
}

}  // namespace

std::array<std::uint64_t, kCpuWords> usable_cpus() noexcept {
  std::array<std::uint64_t, kCpuWords> words{};
  static_assert(sizeof(cpu_set_t) == sizeof(words));
  // If the kernel supports more CPUs than cpu_set_t can hold, it rejects this size. The CPUs are
  // then unknown, and ranks spin as if there were too few CPUs.
  if (::sched_getaffinity(0, sizeof(words), reinterpret_cast<cpu_set_t*>(words.data())) != 0)
    words = {};
  return words;
}

std::size_t place_bytes() noexcept { return sizeof(Communicator::Place); }

void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

Communicator::Communicator(std::shared_ptr<const Memory> memory, const Options& options)
    : memory_(std::move(memory)),
      rank_(options.rank),
      size_(options.size),
      chunk_(chunk_bytes_of(options)),
      timeout_(options.timeout),
      shared_(static_cast<Shared*>(memory_->data())),
      slots_(static_cast<char*>(memory_->data()) + slots_offset(size_)),
      forks_(forks_now()),
      process_(this_process()),
      seen_(static_cast<std::size_t>(size_), 0),
      sources_(static_cast<std::size_t>(size_)),
      before_look_(options.before_look) {
  memory_->hold(rank_);
  const auto cpus = usable_cpus();
  for (std::size_t i = 0; i < kCpuWords; ++i)
    place(rank_).cpus[i].store(cpus[i], std::memory_order_relaxed);
  place(rank_).process.store(process_, std::memory_order_relaxed);
  place(rank_).state.store(Place::kHere, std::memory_order_release);
}

Communicator::~Communicator() {
  if (forks_ != forks_now())
    return;  // this is a copy in a forked child; the rank belongs to the parent
  place(rank_).state.store(Place::kGone, std::memory_order_release);
  place(rank_).posted.wake_all();
}

Communicator::Place& Communicator::place(int rank) const noexcept {
  return shared_->places()[rank];
}

char* Communicator::slot(int rank, std::uint32_t round) const noexcept {
  return slots_ + (static_cast<std::size_t>(rank) * kSlots + round % kSlots) * chunk_;
}

constexpr const char* kNames[] = {"",          "all_reduce", "all_gather", "reduce_scatter",
                                  "broadcast", "barrier"};

void Communicator::begin(Call call, std::size_t bytes, std::uint32_t detail) {
  name_ = kNames[static_cast<int>(call)];
  if (forks_ != forks.load(std::memory_order_relaxed))
    throw Error(ErrorCode::invalid_state, name_,
                {.what = "a forked child cannot use its parent's group"});
  if (failed_ || shared_->failure.load(std::memory_order_acquire) != 0) {
    failed_ = true;
    tell();
  }
  call_ = static_cast<std::uint32_t>(call) << 24 | detail;
  bytes_ = bytes;
  // A 32-bit hash of the call. Two different calls collide with probability 2^-32.
  std::uint64_t mixed = bytes * 0x9e3779b97f4a7c15ULL + detail * 0xc2b2ae3d27d4eb4fULL +
                        static_cast<std::uint32_t>(call);
  mixed ^= mixed >> 29;
  what_ = static_cast<std::uint32_t>(mixed * 0xbf58476d1ce4e5b9ULL >> 32);
}

void Communicator::post(std::uint32_t round) noexcept {
  auto& mine = place(rank_);
  mine.what[round % kSlots].store(what_, std::memory_order_relaxed);
  mine.call[round % kSlots].store(call_, std::memory_order_relaxed);
  mine.bytes[round % kSlots].store(bytes_, std::memory_order_relaxed);
  mine.posted.set(round);
}

void Communicator::wait_until_free(std::uint32_t round) {
  // A rank that has posted round p has read all rounds up to p - 2.
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_ && after(round - 2, seen_[static_cast<std::size_t>(rank)]))
      wait_for(rank, round - 2);
}

void Communicator::wait_for(int rank, std::uint32_t round) {
  auto& last = seen_[static_cast<std::size_t>(rank)];
  if (!after(round, last)) return;
  const auto& word = place(rank).posted;
  // First spin without pause instructions. If the peer arrives at about the same time, this rank
  // notices it 50 ns sooner.
  for (int i = 0; i < 400; ++i) {
    last = word.get();
    if (!after(round, last)) return;
    if (idle_.call) idle_.call(idle_.data);
  }
  wait_slowly(rank, round);
  last = word.get();
}

void Communicator::wait_for_all(std::uint32_t round) {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    wait_for(rank, round);
    check_same(rank, round);
  }
}

/// Fails if `rank`, which has already posted this round, made a different call in it. The rank's
/// data for the round is still valid: `rank` cannot post the fourth round after this one, which
/// reuses the slot, before this rank catches up.
void Communicator::check_same(int rank, std::uint32_t round) {
  if (place(rank).what[round % kSlots].load(std::memory_order_relaxed) == what_) return;
  fail(kDiffers, rank,
       "rank " + std::to_string(rank) + " called " + call_of(rank, round) + ", but rank " +
           std::to_string(rank_) + " called " + call_of(rank_, round));
}

std::string Communicator::call_of(int rank, std::uint32_t round) const {
  const auto call = place(rank).call[round % kSlots].load(std::memory_order_relaxed);
  const auto bytes = place(rank).bytes[round % kSlots].load(std::memory_order_relaxed);
  const auto kind = static_cast<Call>(call >> 24);
  std::string text = kNames[std::min<std::uint32_t>(call >> 24, 5)];
  if (kind == Call::barrier) return text;
  text += " of " + std::to_string(bytes) + " bytes";
  if (kind == Call::broadcast) text += " from rank " + std::to_string(call & 0xffffff);
  if (kind == Call::all_reduce || kind == Call::reduce_scatter)
    text += " as " + std::string(to_string(static_cast<Kind>(call >> 8 & 0xff))) + " by " +
            to_string(static_cast<Reduce>(call & 0xff));
  return text;
}

/// Counts the CPUs of all ranks together, because each rank may be bound to a single CPU.
void Communicator::choose_spin() noexcept {
  int cpus = 0;
  for (std::size_t i = 0; i < kCpuWords; ++i) {
    std::uint64_t word = 0;
    for (int rank = 0; rank < size_; ++rank)
      word |= place(rank).cpus[i].load(std::memory_order_relaxed);
    cpus += __builtin_popcountll(word);
  }
  // If there are fewer CPUs than ranks, the awaited rank may need this rank's CPU.
  spin_ = cpus >= size_ ? std::chrono::microseconds(100) : std::chrono::microseconds(2);
}

void Communicator::wait_slowly(int rank, std::uint32_t round) {
  using Clock = std::chrono::steady_clock;
  if (spin_ == spin_.zero()) choose_spin();
  auto& word = place(rank).posted;
  const auto start = Clock::now();
  while (Clock::now() - start < spin_)
    for (int i = 0; i < 16; ++i) {
      if (!after(round, word.get())) return;
      if (idle_.call) idle_.call(idle_.data);
      spin_pause();
    }
  while (after(round, word.get())) {
    const auto left = timeout_ - (Clock::now() - start);
    if (left <= left.zero()) {
      check_peers(round);
      if (after(round, word.get())) fail(kLate, rank);
      return;
    }
    word.sleep_until_changed(round, std::min<std::chrono::nanoseconds>(left, kLook));
    if (!after(round, word.get())) return;
    if (shared_->failure.load(std::memory_order_acquire) != 0) {
      failed_ = true;
      tell();
    }
    // A rank that has left may already have posted everything that the others need, so also check
    // the round.
    if (place(rank).state.load(std::memory_order_acquire) == Place::kGone &&
        after(round, word.get()))
      fail(kLeft, rank);
    check_peers(round);
  }
}

void Communicator::check_peers(std::uint32_t round) {
  if (before_look_) before_look_();
  for (int rank = 0; rank < size_; ++rank) {
    const auto& peer = place(rank);
    if (rank == rank_ || peer.state.load(std::memory_order_acquire) != Place::kHere) continue;
    if (peer.process.load(std::memory_order_relaxed) == process_) continue;
    // A rank that posted this round before it exited has done its work. Therefore check first
    // whether the rank still holds its lock, and then its round.
    if (!memory_->held_by_another(rank) &&
        peer.state.load(std::memory_order_acquire) == Place::kHere &&
        after(round, peer.posted.get()))
      fail(kDied, rank);
  }
}

void Communicator::fail(std::uint32_t why, int rank, const std::string& text) {
  failed_ = true;
  const auto who = "rank " + std::to_string(rank);
  publish(why, why == kDied   ? who + " has died"
               : why == kLeft ? who + " has left the group"
               : why == kLate ? who + " did not respond in time"
                              : text);
  tell();
}

void Communicator::abort() noexcept {
  if (forks_ != forks.load(std::memory_order_relaxed)) return;  // the rank belongs to the parent
  publish(kAborted, "rank " + std::to_string(rank_) + " aborted the group");
}

void Communicator::publish(std::uint32_t why, const std::string& text) noexcept {
  if (shared_->claimed.exchange(1, std::memory_order_acq_rel) == 0) {
    std::strncpy(shared_->text, text.c_str(), kMaxWords - 1);
    shared_->failure.store(why, std::memory_order_release);
  } else {
    // Another rank is writing the text. Wait only briefly, because that rank may have been killed.
    for (int i = 0; i < 1000 && shared_->failure.load(std::memory_order_acquire) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int other = 0; other < size_; ++other) place(other).posted.wake_all();
}

/// Throws an error with the same message on every rank.
void Communicator::tell() const {
  const auto failure = shared_->failure.load(std::memory_order_acquire);
  const auto where = std::string(name_) + " over shared memory";
  const std::string what(shared_->text, ::strnlen(shared_->text, kMaxWords));
  constexpr const char* kHint =
      "terminate all ranks, or create a new group from the remaining ones";
  switch (failure) {
    case kDied:
    case kLeft:
    case kAborted: throw Error(ErrorCode::unavailable, where, {.what = what, .hint = kHint});
    case kLate:
      throw Error(
          ErrorCode::timeout, where,
          {.what = what,
           .want = "a response from every rank within " +
                   std::to_string(
                       std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count()) +
                   " ms",
           .hint = kHint});
    case kDiffers:
      throw Error(ErrorCode::invalid_argument, where,
                  {.what = what, .want = "the same calls in the same order on every rank"});
    default: throw Error(ErrorCode::invalid_state, where, {.what = "the group has failed"});
  }
}

}  // namespace anyaccel::ops::shm
