// How much a tokenizer's steps may make of a text. Steps that replace text can multiply it, and a sequence of them exponentially.
#pragma once

#include <algorithm>
#include <cstddef>

namespace anyaccel::llm {

/// Largest number of steps in a normalizer, pre-tokenizer, post-processor or decoder, nested ones included.
inline constexpr std::size_t kMaxSteps = 64;

class TextLimit {
 public:
  /// Limit for what becomes of a text of `bytes` bytes: `more`, and 32 times as much. NFKC, the greediest of the usual steps,
  /// makes 11 bytes of one, and ByteLevel 2.
  static TextLimit of(std::size_t bytes, std::size_t more = std::size_t{64} << 10) {
    return TextLimit(std::min(more + 32 * bytes, kMost));
  }

  /// What is left of the limit after a part of the text took `bytes`, which check() passed.
  TextLimit after(std::size_t bytes) const { return TextLimit(most_ - bytes); }

  /// Throws `invalid_argument` if `bytes` is above the limit. Call it before memory for so many bytes is taken, if possible.
  void check(std::size_t bytes) const {
    if (bytes > most_) fail(bytes);
  }

 private:
  static constexpr std::size_t kMost = (std::size_t{1} << 31) - 1;  // ICU and Oniguruma count in int
  explicit TextLimit(std::size_t most) : most_(most) {}
  [[noreturn]] void fail(std::size_t bytes) const;
  std::size_t most_;
};

}  // namespace anyaccel::llm
