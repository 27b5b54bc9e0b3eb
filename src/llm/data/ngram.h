// What a model must beat: counting statistics of the same text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace anyaccel::llm {

/// A stretch of a token stream; the tokens after its first one are predicted.
struct Window {
  std::size_t begin = 0;
  std::size_t length = 0;
};

/// `count` windows of `length` tokens, spread evenly over a stream of `size` tokens; fewer when it
/// is too short.
std::vector<Window> spread_windows(std::size_t size, std::size_t length, std::size_t count);

/// Entropy in nats of the tokens that are predicted in `windows`: no model that ignores context
/// does better on them.
double unigram_entropy(std::span<const std::uint16_t> stream, std::span<const Window> windows);

/// An order-3 model over bytes: each token given the two before it, interpolated with lower orders
/// by Witten and Bell's estimate ("The zero-frequency problem", IEEE Trans. Inf. Theory 37(4),
/// 1991).
class NgramModel {
 public:
  explicit NgramModel(std::span<const std::uint16_t> train);

  /// Probability of `token` after `second`, `first` (the nearer one).
  double probability(std::uint16_t second, std::uint16_t first, std::uint16_t token) const;
  /// Mean negative log probability, in nats, of the tokens predicted in `windows`. Context is the
  /// whole stream, so the first tokens of a window have theirs too.
  double loss(std::span<const std::uint16_t> stream, std::span<const Window> windows) const;

 private:
  /// Occurrences of a context and the number of different tokens seen after it.
  struct Total {
    std::uint32_t count = 0;
    std::uint32_t kinds = 0;
  };
  std::vector<std::uint32_t> one_, two_, three_;
  Total total_;
  std::vector<Total> after_one_, after_two_;
};

}  // namespace anyaccel::llm
