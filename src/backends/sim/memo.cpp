#include "backends/sim/memo.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "backends/sim/fork.h"
#include "backends/sim/hash.h"

namespace anyaccel::backends::sim {

namespace {

constexpr std::size_t kMaxCalls = 1 << 16;  // about 20 MB; a full cache is cleared

struct Hash {
  std::size_t operator()(const CallKey& key) const noexcept {
    std::uint64_t h = key.size();
    for (const auto word : key)
      h = (h ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15ULL, h ^= h >> 29;
    return h;
  }
};

struct Memo {
  HeldAtFork mutex{ForkOrder::inner};
  std::unordered_map<CallKey, std::shared_ptr<const Geometry>, Hash> calls;
};

Memo& memo() {
  static auto* instance = new Memo;
  return *instance;
}

}  // namespace

TensorGeometry geometry_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {.defined = false};
  return {.defined = true,
          .dtype = tensor.scalar_type(),
          .sizes = {tensor.sizes().begin(), tensor.sizes().end()},
          .strides = {tensor.strides().begin(), tensor.strides().end()},
          .conj = tensor.is_conj(),
          .neg = tensor.is_neg()};
}

std::shared_ptr<const Geometry> recall(const CallKey& key) {
  auto& state = memo();
  const std::lock_guard lock(state.mutex);
  const auto found = state.calls.find(key);
  return found == state.calls.end() ? nullptr : found->second;
}

void remember(const CallKey& key, Geometry geometry) {
  auto shared = std::make_shared<const Geometry>(std::move(geometry));
  auto& state = memo();
  const std::lock_guard lock(state.mutex);
  if (state.calls.size() >= kMaxCalls) state.calls.clear();
  state.calls.insert_or_assign(key, std::move(shared));
}

}  // namespace anyaccel::backends::sim
