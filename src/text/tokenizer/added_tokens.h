// Added tokens, which are matched in the text before the model runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/aho_corasick.h"
#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

struct AddedToken {
  std::string text;
  std::int64_t id;
  bool special;      ///< omitted from decoded text
  bool single_word;  ///< not matched inside a word
  bool left_strip;   ///< includes the whitespace before it
  bool right_strip;
  bool normalized;  ///< matched in the normalized text
};

/// A part of the text: an added token, or text without one (id -1).
struct AddedSplit {
  std::string_view text;
  std::int64_t id;
};

class AddedTokens {
 public:
  /// Reads the optional `added_tokens` of tokenizer.json.
  AddedTokens(const TokenizerNode& root, const Normalizer* normalizer);

  /// Splits the text at the added tokens that are matched in the normalized text, or at those that
  /// are matched before normalization if `normalized` is false. Returns views into `text`.
  std::vector<AddedSplit> split(std::string_view text, bool normalized) const;
  /// Returns null if the id does not belong to an added token.
  const AddedToken* find(std::int64_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;
  AhoCorasick plain_, normalized_;
};

}  // namespace anyaccel::llm
