// Sampling of tokens from logits, in double precision on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

/// Draws one token at a time. Not thread-safe.
class Sampler {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit Sampler(const SamplingOptions& options);

  /// Returns a token chosen from `logits`, given the ids so far. Throws `device_error` if every
  /// logit is NaN or minus infinity.
  std::int64_t choose(std::span<const float> logits, std::span<const std::int64_t> history);
  /// Returns a copy that will draw the same random numbers.
  Sampler fork() const;

 private:
  SamplingOptions options_;
  HostRandom random_;
};

}  // namespace anyaccel::llm
