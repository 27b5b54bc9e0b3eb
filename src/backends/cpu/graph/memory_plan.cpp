#include "backends/cpu/graph/memory_plan.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace anyaccel::backends::cpu {
namespace {

// torch's alignment for CPU memory. The rounding of some matrix kernels depends on the alignment.
constexpr std::size_t kAlignment = 64;

struct Interval {
  c10::StorageImpl* storage;
  std::size_t first;
  std::size_t last;
  bool movable;
  std::size_t holders;  // number of the graph's tensors that use this storage
  std::size_t offset = 0;
  std::size_t bytes() const {
    return (storage->nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
};

// Returns the lifetimes of all storages, in order of first use.
std::vector<Interval> find_intervals(const std::vector<Recorded>& calls) {
  std::vector<Interval> intervals;
  std::unordered_map<c10::StorageImpl*, std::size_t> index;
  std::unordered_set<c10::TensorImpl*> seen;
  const auto touch = [&](const at::Tensor& tensor, std::size_t call, bool overwritten) {
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto [found, fresh] = index.emplace(storage, intervals.size());
    if (fresh) intervals.push_back({storage, call, call, overwritten, 0});
    auto& interval = intervals[found->second];
    interval.last = call;
    interval.holders += seen.insert(tensor.unsafeGetTensorImpl()).second ? 1 : 0;
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    // A storage whose first use is a read was not created in the graph.
    for (const auto& input : calls[i].inputs) touch(input, i, false);
    for (const auto& output : calls[i].outputs) touch(output, i, calls[i].overwrites);
  }
  return intervals;
}

// First fit: assigns each `offset` such that intervals that overlap in time do not overlap in
// memory. Returns the total size.
std::size_t place(std::vector<Interval*>& movable) {
  // Placing the largest intervals first leaves fewer holes.
  std::stable_sort(movable.begin(), movable.end(),
                   [](auto* a, auto* b) { return a->bytes() > b->bytes(); });
  std::size_t total = 0;
  std::vector<const Interval*> placed;
  for (auto* interval : movable) {
    std::map<std::size_t, std::size_t>
        busy;  // offset -> end offset, for intervals with overlapping lifetimes
    for (const auto* other : placed) {
      if (other->first <= interval->last && interval->first <= other->last) {
        auto& end = busy[other->offset];
        end = std::max(end, other->offset + other->bytes());
      }
    }
    std::size_t offset = 0;
    for (const auto& [begin, end] : busy) {
      if (offset + interval->bytes() <= begin) break;
      offset = std::max(offset, end);
    }
    interval->offset = offset;
    total = std::max(total, offset + interval->bytes());
    placed.push_back(interval);
  }
  return total;
}

void release(void* arena) { delete static_cast<std::shared_ptr<c10::DataPtr>*>(arena); }

}  // namespace

bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.nbytes() == tensor.storage().nbytes();
}

std::size_t share_memory(std::vector<Recorded>& calls) {
  auto intervals = find_intervals(calls);
  std::vector<Interval*> movable;
  std::size_t before = 0;
  for (auto& interval : intervals) {
    const auto owners = c10::raw::intrusive_ptr::use_count(interval.storage);
    if (!interval.movable || owners != interval.holders || interval.storage->nbytes() == 0)
      continue;
    movable.push_back(&interval);
    before += interval.bytes();
  }
  const auto total = place(movable);
  if (total >= before) return 0;
  const auto arena = std::make_shared<c10::DataPtr>(c10::GetCPUAllocator()->allocate(total));
  for (const auto* interval : movable) {
    auto* address = static_cast<char*>(arena->get()) + interval->offset;
    interval->storage->set_data_ptr_noswap(c10::DataPtr(
        address, new std::shared_ptr<c10::DataPtr>(arena), &release, c10::Device(c10::kCPU)));
  }
  for (auto& call : calls) {
    if (call.maker != nullptr) call.step = call.maker(call.args, call.outputs);
  }
  return before - total;
}

}  // namespace anyaccel::backends::cpu
