#include "backends/sim/pinned.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "backends/sim/fork.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/page_size.h"
#include "backends/sim/runtime.h"

#include <fcntl.h>

namespace anyaccel::backends::sim {

namespace {

constexpr std::size_t kAddresses = 64ULL << 30;

struct PinnedBlock {
  char* address = nullptr;
  std::size_t size = 0;
  std::vector<std::pair<SimStream*, Ticket>> uses;
};

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override;
  bool record_event(void* address, void* context, c10::Stream stream) override;
  void empty_cache() override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  at::HostStats get_stats() override;
  void reset_accumulated_stats() override;
  void reset_peak_stats() override;

  bool owns(const void* address) const noexcept {
    return base_ != nullptr &&
           static_cast<std::size_t>(static_cast<const char*>(address) - base_) < kAddresses;
  }
  std::ptrdiff_t delta() const noexcept { return delta_; }
  void* map_again(char* address, std::size_t bytes) const noexcept;

 private:
  static void free_block(void* context);
  void free(PinnedBlock* block) noexcept;
  void map_once();
  /// False in a forked child, whose parent uses the same memory.
  bool ours() const noexcept { return base_ == nullptr || owner_ == ::getpid(); }
  char* take_addresses(std::size_t size);
  void collect_waiting();

  HeldAtFork mutex_{ForkOrder::outer};
  std::atomic<char*> base_{nullptr};
  std::ptrdiff_t delta_ = 0;
  int file_ = -1;
  pid_t owner_ = 0;
  std::multimap<std::size_t, PinnedBlock*> free_;
  std::list<PinnedBlock*> waiting_;
  std::map<char*, std::unique_ptr<PinnedBlock>> blocks_;
  at::HostStats stats_;
};

PinnedAllocator& instance() noexcept {
  static auto* one = new PinnedAllocator;
  return *one;
}

struct Registered {
  HeldAtFork mutex{ForkOrder::inner};
  std::map<const char*, std::size_t> ranges;
};

Registered& registered() noexcept {
  static auto* one = new Registered;
  return *one;
}

void PinnedAllocator::map_once() {
  if (base_ != nullptr) return;
  char* views[2] = {};
  const auto fail = [&](const char* what) {
    const int error = errno;
    if (views[0] != nullptr) ::munmap(views[0], kAddresses);
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    TORCH_CHECK(false, "[sim] ", what, ": ", std::strerror(error));
  };
  file_ = ::memfd_create("anyaccel-pinned", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(kAddresses)) != 0)
    fail("cannot create pinned memory");
  for (auto*& view : views) {
    void* address =
        ::mmap(nullptr, kAddresses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (address == MAP_FAILED) fail("cannot reserve addresses for pinned memory");
    ::madvise(address, kAddresses, MADV_DONTDUMP);
    view = static_cast<char*>(address);
  }
  delta_ = views[1] - views[0];
  owner_ = ::getpid();
  base_ = views[0];
}

char* PinnedAllocator::take_addresses(std::size_t size) {
  char* address = base_;
  for (const auto& [start, block] : blocks_) {
    if (static_cast<std::size_t>(start - address) >= size) break;
    address = start + block->size;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, address + size <= base_ + kAddresses,
                   "[sim] out of pinned host memory; tried to allocate ", size, " bytes");
  return address;
}

c10::DataPtr PinnedAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
  // Use whole pages, so that the view of a single block can be protected, and sizes that are powers
  // of two, so that blocks can be reused.
  std::size_t size = page_size();
  while (size < bytes) size *= 2;
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(ours(),
              "[sim] a forked child cannot allocate pinned memory after its parent has allocated "
              "some; start the child with multiprocessing's 'spawn' method");
  map_once();
  collect_waiting();
  PinnedBlock* block = nullptr;
  if (const auto found = free_.find(size); found != free_.end()) {
    block = found->second;
    free_.erase(found);
  } else {
    auto made = std::make_unique<PinnedBlock>();
    made->address = take_addresses(size);
    made->size = size;
    block = made.get();
    blocks_.emplace(made->address, std::move(made));
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(size);
    ++stats_.num_host_alloc;
  }
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(size);
  if (auto* watching = observer()) watching->on_pinned_allocate(block->address, size);
  return {block->address, block, &free_block, c10::Device(c10::kCPU)};
}

/// A range, rounded up to whole pages.
struct Pages {
  Pages(const char* address, std::size_t bytes)
      : offset(reinterpret_cast<std::uintptr_t>(address) % page_size()),
        size(round_up_to_pages(offset + bytes)) {}
  std::size_t offset;  ///< offset of the address in its first page
  std::size_t size;
};

void* PinnedAllocator::map_again(char* address, std::size_t bytes) const noexcept {
  if (!owns(address)) return nullptr;
  const Pages pages(address, bytes);
  void* view = ::mmap(nullptr, pages.size, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                      address - base_ - static_cast<std::ptrdiff_t>(pages.offset));
  return view == MAP_FAILED ? nullptr : static_cast<char*>(view) + pages.offset;
}

void PinnedAllocator::free_block(void* context) {
  instance().free(static_cast<PinnedBlock*>(context));
}

void PinnedAllocator::free(PinnedBlock* block) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(block->size);
  if (block->uses.empty()) {
    free_.emplace(block->size, block);
  } else {
    waiting_.push_back(block);
  }
}

void PinnedAllocator::collect_waiting() {
  waiting_.remove_if([this](PinnedBlock* block) {
    const bool done = std::all_of(block->uses.begin(), block->uses.end(),
                                  [](const auto& use) { return use.first->done(use.second); });
    if (!done) return false;
    block->uses.clear();
    free_.emplace(block->size, block);
    return true;
  });
}

bool PinnedAllocator::record_event(void* address, void* context, c10::Stream stream) {
  auto& user = stream_of(stream);
  const std::lock_guard lock(mutex_);
  PinnedBlock* block = nullptr;
  if (const auto found = blocks_.upper_bound(static_cast<char*>(address));
      found != blocks_.begin()) {
    auto* candidate = std::prev(found)->second.get();
    if (static_cast<char*>(address) < candidate->address + candidate->size) block = candidate;
  }
  if (block == nullptr) block = static_cast<PinnedBlock*>(owns(address) ? context : nullptr);
  if (block == nullptr) return false;
  block->uses.emplace_back(&user, user.last());
  return true;
}

void PinnedAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  if (!ours()) return;
  collect_waiting();
  for (const auto& [size, block] : free_) {
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block->address - base_,
                static_cast<off_t>(size));
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(size);
    ++stats_.num_host_free;
    blocks_.erase(block->address);
  }
  free_.clear();
}

at::HostStats PinnedAllocator::get_stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void PinnedAllocator::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  for (auto* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests,
                     &stats_.active_bytes})
    stat->reset_accumulated();
  stats_.num_host_alloc = stats_.num_host_free = 0;
}

void PinnedAllocator::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  for (auto* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests,
                     &stats_.active_bytes})
    stat->reset_peak();
}

bool is_registered(const void* address) noexcept {
  auto& state = registered();
  const std::lock_guard lock(state.mutex);
  const auto* byte = static_cast<const char*>(address);
  const auto after = state.ranges.upper_bound(byte);
  if (after == state.ranges.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return byte < start + size;
}

}  // namespace

at::HostAllocator& pinned_allocator() noexcept { return instance(); }

bool is_pinned(const void* address) noexcept {
  return instance().owns(address) || is_registered(address);
}

void* device_view(void* address) noexcept {
  return instance().owns(address) ? static_cast<char*>(address) + instance().delta() : address;
}

void* map_again(void* address, std::size_t bytes) noexcept {
  return instance().map_again(static_cast<char*>(address), bytes);
}

void unmap_again(void* address, std::size_t bytes) noexcept {
  const Pages pages(static_cast<char*>(address), bytes);
  ::munmap(static_cast<char*>(address) - pages.offset, pages.size);
}

void register_pinned(void* address, std::size_t bytes) {
  TORCH_CHECK(!is_pinned(address), "[sim] the memory is already pinned");
  auto& state = registered();
  const std::lock_guard lock(state.mutex);
  state.ranges.emplace(static_cast<const char*>(address), bytes);
}

void unregister_pinned(void* address) {
  auto& state = registered();
  const std::lock_guard lock(state.mutex);
  TORCH_CHECK(state.ranges.erase(static_cast<const char*>(address)) == 1,
              "[sim] the memory was not registered");
}

}  // namespace anyaccel::backends::sim
