// Training examples as tokens, stored compactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/fnv1a.h"

namespace anyaccel::llm {

/// A range of tokens of an example.
struct TokenSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;  ///< exclusive
};

/// Token sequences, and which of their tokens a model learns to predict. A token takes two bytes
/// if the vocabulary has at most 65536 tokens, otherwise four. Thread-safe for reading.
class ExampleStore {
 public:
  explicit ExampleStore(std::int64_t vocab_size);

  /// Appends an example. `learned`: the tokens that contribute to the loss, in order. Ids must be
  /// in the vocabulary. An example has fewer than 2^32 tokens.
  void add(std::span<const std::int64_t> ids, std::span<const TokenSpan> learned);

  std::size_t size() const noexcept { return examples_.size(); }
  std::uint32_t length(std::size_t example) const { return examples_[example].length; }
  std::int64_t tokens() const noexcept { return tokens_; }
  /// Number of tokens that contribute to the loss, without the first of each example.
  std::int64_t learned_tokens() const noexcept { return learned_; }
  /// Returns whether the example may be split: all of its tokens contribute to the loss.
  bool divisible(std::size_t example) const { return examples_[example].divisible; }
  /// Hash of all examples, in order.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// Copies `count` tokens, starting at token `begin`, to `ids` and to `labels`. Tokens that do not
  /// contribute to the loss get the label -100.
  void read(std::size_t example, std::uint32_t begin, std::uint32_t count, std::int64_t* ids,
            std::int64_t* labels) const;
  /// Number of tokens in the range that contribute to the loss.
  std::int64_t learned_in(std::size_t example, std::uint32_t begin, std::uint32_t count) const;

 private:
  struct Example {
    std::uint32_t block;
    std::uint32_t offset;  ///< in tokens
    std::uint32_t length;
    bool divisible;
    std::uint64_t first_span;
  };
  std::span<const TokenSpan> spans(std::size_t example) const;
  void mix(std::uint64_t value) noexcept;

  bool wide_;  ///< four bytes per token
  /// Blocks of tokens. An example lies in one block.
  std::vector<std::vector<std::uint16_t>> narrow_blocks_;
  std::vector<std::vector<std::uint32_t>> wide_blocks_;
  std::vector<Example> examples_;
  std::vector<TokenSpan> spans_;
  std::int64_t tokens_ = 0, learned_ = 0;
  std::uint64_t fingerprint_ = kFnv1aStart;
};

}  // namespace anyaccel::llm
