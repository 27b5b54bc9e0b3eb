// io_uring through direct system calls. No library is needed, and errors show why the kernel or a
// sandbox rejects the calls.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"
#include "io/async/queue.h"

// Linux 6.0 and 6.1 introduced these flags; older headers lack them.
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

namespace anyaccel::ops::aio {

namespace {

std::string why_refused(int error) {
  std::string text = std::string("io_uring_setup: ") + std::strerror(error);
  if (error == EPERM) text += " (a seccomp filter or kernel.io_uring_disabled forbids it)";
  if (error == ENOSYS) text += " (this kernel has no io_uring)";
  if (error == ENOMEM) text += " (RLIMIT_MEMLOCK may be too low)";
  return text;
}

class Mapping {
 public:
  void map(int ring, std::size_t bytes, off_t what) {
    void* at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (at == MAP_FAILED)
      throw Error(ErrorCode::unavailable, "io_uring", {.what = std::strerror(errno)});
    // A forked child must not access its parent's ring.
    ::madvise(at, bytes, MADV_DONTFORK);
    start_ = static_cast<char*>(at);
    bytes_ = bytes;
  }
  ~Mapping() {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(start_ + offset);
  }

 private:
  char* start_ = nullptr;
  std::size_t bytes_ = 0;
};

class Descriptor {
 public:
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int number = -1;
};

class UringQueue final : public Queue {
 public:
  explicit UringQueue(unsigned depth);
  const char* name() const noexcept override { return "io_uring"; }
  std::size_t submit(Transfer* const* transfers, std::size_t count) override;
  void reap(std::size_t least, std::vector<Transfer*>& done) override;

 private:
  void open(unsigned depth);
  void require_read_and_write();
  int enter(unsigned submit, unsigned wait) {
    return static_cast<int>(::syscall(__NR_io_uring_enter, ring_.number, submit, wait,
                                      wait > 0 || deferred_ ? IORING_ENTER_GETEVENTS : 0U, nullptr,
                                      0));
  }
  std::size_t take(std::vector<Transfer*>& done);

  Descriptor ring_;
  io_uring_params params_{};
  bool deferred_ = false;
  Mapping submissions_;
  Mapping completions_;
  Mapping entries_;
  std::size_t under_way_ = 0;
  std::vector<Transfer*> refused_;
};

void UringQueue::open(unsigned depth) {
  // With DEFER_TASKRUN, this thread handles completions when it asks for them, so that they do not
  // interrupt it.
  for (const unsigned flags :
       {IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        IORING_SETUP_CLAMP}) {
    params_ = {};
    params_.flags = flags;
    ring_.number = static_cast<int>(::syscall(__NR_io_uring_setup, depth, &params_));
    deferred_ = (flags & IORING_SETUP_DEFER_TASKRUN) != 0;
    if (ring_.number >= 0 || errno != EINVAL) break;
  }
  if (ring_.number < 0)
    throw Error(ErrorCode::unavailable, "io_uring", {.what = why_refused(errno)});
}

void UringQueue::require_read_and_write() {
  constexpr unsigned kOps = 256;
  std::vector<char> memory(sizeof(io_uring_probe) + kOps * sizeof(io_uring_probe_op));
  auto* probe = reinterpret_cast<io_uring_probe*>(memory.data());
  const auto answer =
      ::syscall(__NR_io_uring_register, ring_.number, IORING_REGISTER_PROBE, probe, kOps);
  if (answer != 0 || probe->last_op < IORING_OP_WRITE)
    throw Error(ErrorCode::unavailable, "io_uring",
                {.what = "this kernel's io_uring is too old", .want = "Linux 5.6 or later"});
}

UringQueue::UringQueue(unsigned depth) {
  open(depth);
  require_read_and_write();
  refused_.reserve(depth);
  submissions_.map(ring_.number, params_.sq_off.array + params_.sq_entries * sizeof(unsigned),
                   IORING_OFF_SQ_RING);
  completions_.map(ring_.number, params_.cq_off.cqes + params_.cq_entries * sizeof(io_uring_cqe),
                   IORING_OFF_CQ_RING);
  entries_.map(ring_.number, params_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
}

std::size_t UringQueue::submit(Transfer* const* transfers, std::size_t count) {
  auto* tail = submissions_.at<unsigned>(params_.sq_off.tail);
  const unsigned mask = *submissions_.at<unsigned>(params_.sq_off.ring_mask);
  const unsigned start = *tail;
  // Never submit more than the completion ring can hold.
  const auto room = std::min<std::size_t>(
      params_.sq_entries,
      params_.cq_entries - std::min<std::size_t>(params_.cq_entries, under_way_));
  const auto wanted = static_cast<unsigned>(std::min(count, room));
  for (unsigned i = 0; i < wanted; ++i) {
    const Transfer& transfer = *transfers[i];
    const unsigned index = (start + i) & mask;
    io_uring_sqe entry{};
    entry.opcode = transfer.write ? IORING_OP_WRITE : IORING_OP_READ;
    entry.fd = transfer.file;
    entry.addr = reinterpret_cast<std::uint64_t>(transfer.memory);
    entry.len = static_cast<std::uint32_t>(transfer.bytes);
    entry.off = static_cast<std::uint64_t>(transfer.offset);
    entry.user_data = reinterpret_cast<std::uint64_t>(transfers[i]);
    entries_.at<io_uring_sqe>(0)[index] = entry;
    submissions_.at<unsigned>(params_.sq_off.array)[index] = index;
  }
  __atomic_store_n(tail, start + wanted, __ATOMIC_RELEASE);
  const int taken = wanted == 0 ? 0 : enter(wanted, 0);
  const auto started = static_cast<unsigned>(std::max(taken, 0));
  // Take back the entries that the kernel did not accept; the caller submits them again. The kernel
  // does not read the ring in between.
  if (started < wanted) __atomic_store_n(tail, start + started, __ATOMIC_RELEASE);
  under_way_ += started;
  if (taken < 0 && errno != EAGAIN && errno != EBUSY && errno != EINTR) {
    transfers[0]->result = -errno;
    refused_.push_back(transfers[0]);
    return 1;
  }
  return started;
}

std::size_t UringQueue::take(std::vector<Transfer*>& done) {
  auto* head = completions_.at<unsigned>(params_.cq_off.head);
  const unsigned tail =
      __atomic_load_n(completions_.at<unsigned>(params_.cq_off.tail), __ATOMIC_ACQUIRE);
  const unsigned mask = *completions_.at<unsigned>(params_.cq_off.ring_mask);
  const auto* entries = completions_.at<io_uring_cqe>(params_.cq_off.cqes);
  const unsigned start = *head;
  for (unsigned at = start; at != tail; ++at) {
    auto* transfer = reinterpret_cast<Transfer*>(entries[at & mask].user_data);
    transfer->result = entries[at & mask].res;
    done.push_back(transfer);
  }
  __atomic_store_n(head, tail, __ATOMIC_RELEASE);
  under_way_ -= tail - start;
  return tail - start;
}

void UringQueue::reap(std::size_t least, std::vector<Transfer*>& done) {
  std::size_t found = refused_.size();
  done.insert(done.end(), refused_.begin(), refused_.end());
  refused_.clear();
  found += take(done);
  while (found < least && under_way_ > 0) {
    const auto missing = std::min(least - found, under_way_);
    if (enter(0, static_cast<unsigned>(missing)) < 0 && errno != EINTR && errno != EAGAIN &&
        errno != EBUSY)
      throw Error(ErrorCode::internal, "io_uring",
                  {.what = std::string("io_uring_enter: ") + std::strerror(errno)});
    found += take(done);
  }
}

}  // namespace

std::unique_ptr<Queue> make_uring_queue(unsigned depth) {
  return std::make_unique<UringQueue>(depth);
}

}  // namespace anyaccel::ops::aio
