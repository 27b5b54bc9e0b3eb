// The rows of a data set: which parts of which examples they contain, and their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "llm/data/example_store.h"

namespace anyaccel::llm {

/// A sequence in a row: `length` tokens of an example, starting at token `begin`.
struct RowPart {
  std::uint32_t example = 0;
  std::uint32_t begin = 0;
  std::uint32_t length = 0;
};

/// Sequences that are held out for evaluation: a random fraction.
struct HoldOut {
  double fraction = 0;
  bool held_out = false;  ///< true: use these sequences; false: use the others
};

/// The rows of a data set. Thread-safe after construction.
class Rows {
 public:
  /// Fills rows of up to `context` tokens. A longer text becomes several sequences; each begins
  /// with the last token of the previous one, so that every token is predicted once. A longer
  /// conversation is cut off. With `packing`, sequences share rows: in a random order that depends
  /// on `seed`, each is added to the fullest recent row with enough room. Otherwise, every sequence
  /// gets its own row. Skips sequences without a token to predict.
  Rows(const ExampleStore& store, std::int64_t context, bool packing, std::uint64_t seed,
       const HoldOut& hold_out = {});

  std::size_t size() const noexcept { return begins_.size() - 1; }
  std::span<const RowPart> row(std::size_t index) const {
    return std::span(parts_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  std::int64_t tokens() const noexcept { return tokens_; }
  /// Number of conversations that were cut off, and of examples without a token to predict.
  std::int64_t truncated() const noexcept { return truncated_; }
  std::int64_t left_out() const noexcept { return left_out_; }

 private:
  std::vector<RowPart> sequences(const ExampleStore& store, std::uint32_t context);
  void pack(const std::vector<RowPart>& sequences, std::uint32_t context);

  std::vector<RowPart> parts_;
  std::vector<std::size_t> begins_ = {0};  ///< start of each row in `parts_`, and the end
  std::int64_t tokens_ = 0, truncated_ = 0, left_out_ = 0;
};

/// An endless sequence of rows: each epoch contains all rows in a different random order. A
/// position in the sequence determines the row, so a resumed run needs only its position.
class RowOrder {
 public:
  /// `shuffle`: false to keep the original order in each epoch.
  RowOrder(std::size_t rows, std::uint64_t seed, bool shuffle = true);
  /// Returns the row at a position. Fast if consecutive calls are in the same epoch.
  std::size_t at(std::uint64_t position);

 private:
  std::size_t rows_;
  std::uint64_t seed_, epoch_;
  bool shuffle_;
  std::vector<std::uint32_t> order_;
};

/// Returns the numbers 0 to `count` - 1 in a random order, which is the same on every machine.
std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t stream);

}  // namespace anyaccel::llm
