// Choosing a token from logits, in double precision on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

/// Draws tokens one after the other. Not thread-safe.
class Sampler {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit Sampler(const SamplingOptions& options);

  /// A token for `logits`, given the ids so far. `device_error` when all of them are NaN or minus
  /// infinity.
  std::int64_t choose(std::span<const float> logits, std::span<const std::int64_t> history);
  /// One that draws what this one will draw.
  Sampler fork() const;

 private:
  SamplingOptions options_;
  HostRandom random_;
};

}  // namespace anyaccel::llm
