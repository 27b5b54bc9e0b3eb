// Patterns that split or replace text, and how their matches are treated.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/regex.h"

namespace anyaccel::llm {

/// A span of the text. The spans cover the whole text in order.
struct Stretch {
  std::size_t begin;
  std::size_t end;
  bool match;
};

/// A fixed text or a regular expression: {"String": ...} or {"Regex": ...}.
class Pattern {
 public:
  static Pattern read(const TokenizerNode& node);  ///< reads the value of "pattern"
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}
  std::vector<Stretch> find(std::string_view text) const;
  /// Returns the text with each match replaced. If the result is too large, throws the same error
  /// as TextLimit::check().
  std::string replace(std::string_view text, const std::string& by, TextLimit limit) const {
    return replace(text, find(text), by, limit);
  }
  /// Like replace() above, for matches that find() returned.
  static std::string replace(std::string_view text, const std::vector<Stretch>& stretches,
                             const std::string& by, TextLimit limit);

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

/// Returns spans in which each character that satisfies `match` is a separate match.
template <typename F>
std::vector<Stretch> find_characters(std::string_view text, F&& match);

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior read_behavior(const TokenizerNode& node,
                            std::optional<SplitBehavior> otherwise = std::nullopt);

/// Splits `piece` into the spans in `stretches`, and appends the resulting pre-tokens.
void split_piece(const Piece& piece, std::vector<Stretch> stretches, SplitBehavior behavior,
                 Pieces& out);

}  // namespace anyaccel::llm

#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

template <typename F>
std::vector<Stretch> find_characters(std::string_view text, F&& match) {
  std::vector<Stretch> out;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const bool is_match = match(c);
    if (!is_match && !out.empty() && !out.back().match) {
      out.back().end += bytes.size();
    } else {
      out.push_back({at, at + bytes.size(), is_match});
    }
    at += bytes.size();
  });
  return out;
}

}  // namespace anyaccel::llm
