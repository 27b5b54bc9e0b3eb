// Drafts the next tokens of a sequence, which the model verifies in one forward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "llm/generate/sampler.h"
#include "llm/generate/sequence.h"

namespace anyaccel::llm {

/// Drafts tokens as configured by Speculation. Rejected draft tokens cost time but do not change
/// the result. Not thread-safe.
class Drafter {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit Drafter(const Speculation& speculation);

  /// Drafts up to `most` tokens that follow `history`, for a model with `config`. `sampler` chooses
  /// the model's tokens. A draft model's tokens are chosen with the same random numbers.
  std::vector<std::int64_t> guess(const ModelConfig& config, std::span<const std::int64_t> history,
                                  std::int64_t most, const Sampler& sampler);

 private:
  std::vector<std::int64_t> ask_draft(const ModelConfig& config,
                                      std::span<const std::int64_t> history, std::int64_t most,
                                      Sampler sampler);
  std::int64_t tokens_;
  std::optional<Sequence> draft_;
};

/// Prompt lookup (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding). Finds an earlier
/// occurrence of the last three tokens of `history`, otherwise of the last two, otherwise of the
/// last one, and returns the tokens after it. Prefers the latest occurrence followed by `most`
/// tokens, then the first occurrence.
std::vector<std::int64_t> look_up(std::span<const std::int64_t> history, std::int64_t most);

}  // namespace anyaccel::llm
