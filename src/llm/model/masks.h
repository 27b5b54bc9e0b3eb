// Which positions the tokens of a pass may see.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>

namespace anyaccel::llm {

/// The masks of one pass over `time` tokens behind `past` others: layers of the same window share
/// theirs. Not thread-safe.
class Masks {
 public:
  Masks(std::int64_t past, std::int64_t time, c10::Device device)
      : past_(past), time_(time), device_(device) {}

  /// [time, past + time], true for what is seen: all up to the token's own position, or the last
  /// `window` of them; 0 for everything. Nothing where the kernels' own rule fits, unless `always`
  /// one is needed.
  std::optional<at::Tensor> of(std::int64_t window, bool always);

 private:
  std::int64_t past_, time_;
  c10::Device device_;
  std::map<std::int64_t, at::Tensor> made_;
};

}  // namespace anyaccel::llm
