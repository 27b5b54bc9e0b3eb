// What a sequence may go on with, to be checked by the model several tokens at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "llm/generate/sampler.h"
#include "llm/generate/sequence.h"

namespace anyaccel::llm {

/// Guesses as Speculation says. Wrong guesses cost time and change nothing. Not thread-safe.
class Drafter {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit Drafter(const Speculation& speculation);

  /// At most `most` tokens after `history`, for a model of `config`. `sampler`: what the model's
  /// tokens will be chosen by; a draft model's are chosen by the same draws.
  std::vector<std::int64_t> guess(const ModelConfig& config, std::span<const std::int64_t> history,
                                  std::int64_t most, const Sampler& sampler);

 private:
  std::vector<std::int64_t> ask_draft(const ModelConfig& config,
                                      std::span<const std::int64_t> history, std::int64_t most,
                                      Sampler sampler);
  std::int64_t tokens_;
  std::optional<Sequence> draft_;
};

/// Prompt lookup (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding): what followed the
/// last three tokens of `history` where they were before, or the last two, or the last one. Of
/// several places the latest that `most` tokens follow, or else the first.
std::vector<std::int64_t> look_up(std::span<const std::int64_t> history, std::int64_t most);

}  // namespace anyaccel::llm
