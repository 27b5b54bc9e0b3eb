// Limits how much a tokenizer's steps may expand a text. A step that replaces text can multiply its
// size, so a sequence of steps can expand it exponentially.
#pragma once

#include <algorithm>
#include <cstddef>

namespace anyaccel::llm {

/// Maximum number of steps in a normalizer, pre-tokenizer, post-processor or decoder, including
/// nested steps.
inline constexpr std::size_t kMaxSteps = 64;

class TextLimit {
 public:
  /// Limit for the expansion of a text of `bytes` bytes: 32 times its size plus `more`. Of the
  /// usual steps, NFKC expands text the most, from one byte to at most 11. ByteLevel expands one
  /// byte to 2.
  static TextLimit of(std::size_t bytes, std::size_t more = std::size_t{64} << 10) {
    return TextLimit(std::min(more + 32 * bytes, kMost));
  }

  /// Returns the limit that remains after part of the text has used `bytes` bytes. check() must
  /// have accepted this size.
  TextLimit after(std::size_t bytes) const { return TextLimit(most_ - bytes); }

  /// Throws `invalid_argument` if `bytes` exceeds the limit. If possible, call it before allocating
  /// the memory.
  void check(std::size_t bytes) const {
    if (bytes > most_) fail(bytes);
  }

 private:
  static constexpr std::size_t kMost =
      (std::size_t{1} << 31) - 1;  // ICU and Oniguruma use int for sizes
  explicit TextLimit(std::size_t most) : most_(most) {}
  [[noreturn]] void fail(std::size_t bytes) const;
  std::size_t most_;
};

}  // namespace anyaccel::llm
