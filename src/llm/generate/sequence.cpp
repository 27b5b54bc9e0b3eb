#include "llm/generate/sequence.h"

#include <algorithm>

#include "llm/model/state.h"

namespace anyaccel::llm {

bool same_rotation(const ModelConfig& config, std::int64_t from, std::int64_t to) {
  if (config.rope.type == RopeType::dynamic) return std::max(from, to) <= config.max_positions;
  if (config.rope.type != RopeType::longrope) return true;
  const std::int64_t border = config.rope.original_max_positions;
  return (from > border) == (to > border);
}

std::int64_t Sequence::begin(std::span<const std::int64_t> ids, std::int64_t capacity) {
  const ModelState& state = *model_.state();
  const auto size = static_cast<std::int64_t>(ids.size());
  std::int64_t kept =
      std::mismatch(ids_.begin(), ids_.end(), ids.begin(), ids.end()).first - ids_.begin();
  kept = std::min(kept, size - 1);
  if (!same_rotation(state.config, length(), size)) kept = 0;
  truncate(kept);
  if (!cache_) {
    cache_.emplace(state.local, 1, capacity, state.dtype);
  } else {
    cache_->reserve(capacity);
  }
  return kept;
}

at::Tensor Sequence::append(std::span<const std::int64_t> ids, bool last_only) {
  ModelState& state = *model_.state();
  const auto rows = static_cast<std::int64_t>(ids.size());
  std::vector<std::int64_t> next(ids.begin(), ids.end());
  if (state.config.rope.type == RopeType::longrope &&
      !same_rotation(state.config, length(), length() + rows)) {
    // Longer sequences use different frequencies at all positions, so the cached keys are invalid.
    next.insert(next.begin(), ids_.begin(), ids_.end());
    truncate(0);
  }
  const at::Tensor logits = llama_forward(state.weights, state.local, state.rope,
                                          ids_on_device(state.config, next, "generate"), &*cache_,
                                          /*last_only=*/last_only || rows == 1)
                                .squeeze(0);
  ids_.insert(ids_.end(), next.begin(), next.end());
  return logits
      .narrow(0, last_only ? logits.size(0) - 1 : logits.size(0) - rows, last_only ? 1 : rows)
      .to(c10::Device(c10::kCPU), c10::kFloat)
      .contiguous();
}

void Sequence::truncate(std::int64_t length) {
  ids_.resize(static_cast<std::size_t>(length));
  if (cache_) cache_->truncate(length);
}

}  // namespace anyaccel::llm
