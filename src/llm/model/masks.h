// Attention masks for a pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>

namespace anyaccel::llm {

/// The masks for a pass over `time` new tokens after `past` earlier ones. Layers with the same
/// window share a mask. Not thread-safe.
class Masks {
 public:
  Masks(std::int64_t past, std::int64_t time, c10::Device device)
      : past_(past), time_(time), device_(device) {}

  /// Returns a mask [time, past + time] that is true for visible positions. These are all positions
  /// up to the token's own, or the last `window` of them if `window` is not 0. Returns nullopt if
  /// there is only one token. Without `always`, also returns nullopt if the kernels' causal flag
  /// suffices.
  std::optional<at::Tensor> of(std::int64_t window, bool always);

 private:
  std::int64_t past_, time_;
  c10::Device device_;
  std::map<std::int64_t, at::Tensor> made_;
};

}  // namespace anyaccel::llm
