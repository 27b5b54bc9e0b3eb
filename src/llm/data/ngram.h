// Baselines for a model's loss: n-gram statistics of the model's data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace anyaccel::llm {

/// A range of a token stream. All of its tokens except the first are predicted.
struct Window {
  std::size_t begin = 0;
  std::size_t length = 0;
};

/// Returns `count` windows of `length` tokens, evenly spaced over a stream of `size` tokens.
/// Returns fewer if the stream is too short.
std::vector<Window> spread_windows(std::size_t size, std::size_t length, std::size_t count);

/// Entropy, in nats, of the tokens predicted in `windows`: a lower bound on the loss of any model
/// that ignores the context.
double unigram_entropy(std::span<const std::uint16_t> stream, std::span<const Window> windows);

/// A trigram model over bytes, interpolated with lower-order models by Witten-Bell smoothing ("The
/// zero-frequency problem", IEEE Trans. Inf. Theory 37(4), 1991).
class NgramModel {
 public:
  explicit NgramModel(std::span<const std::uint16_t> train);

  /// Probability of `token` after the context `second`, `first` (in text order).
  double probability(std::uint16_t second, std::uint16_t first, std::uint16_t token) const;
  /// Mean negative log probability, in nats, of the tokens predicted in `windows`. The context may
  /// begin before a window.
  double loss(std::span<const std::uint16_t> stream, std::span<const Window> windows) const;

 private:
  /// Number of times a context occurs, and number of distinct tokens seen after it.
  struct Total {
    std::uint32_t count = 0;
    std::uint32_t kinds = 0;
  };
  std::vector<std::uint32_t> one_, two_, three_;
  Total total_;
  std::vector<Total> after_one_, after_two_;
};

}  // namespace anyaccel::llm
