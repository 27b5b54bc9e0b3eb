// A text while it is normalized, and how much of its beginning stems from where the whole text begins.
//
// Metaspace with the scheme "first" puts its mark in front of a piece whose first byte is aligned to byte 0 of the original
// text. The `tokenizers` library keeps an alignment for each byte (NormalizedString). They never decrease, so the number of
// leading bytes that are aligned to byte 0 is all of it that results depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_limit.h"

namespace anyaccel::llm {

/// Part of a text. It is valid UTF-8.
struct NormalizedText {
  std::string text;
  bool begins = false;   ///< the part was cut from where the whole text begins
  std::size_t lead = 0;  ///< leading bytes aligned to the whole text's byte 0
  TextLimit limit = TextLimit::of(0);

  /// The part of a whole text. `begins`: its first one.
  static NormalizedText part(std::string_view text, bool begins, TextLimit limit);
};

/// The lead of a text that a normalizer rewrites character by character.
class LeadTracker {
 public:
  explicit LeadTracker(const NormalizedText& text) : LeadTracker(text.text, text.begins, text.lead) {}
  LeadTracker(std::string_view text, bool begins, std::size_t lead) : text_(text), begins_(begins), lead_(lead) {}

  /// Add a character of the new text, of so many bytes. `change` is the library's: 0 replaces a character of the old text, -n
  /// replaces n + 1 of them, 1 replaces none.
  void add(std::size_t bytes, std::int64_t change);
  /// The new text's lead, of the characters so far.
  std::size_t lead() const { return out_; }
  /// No further character changes it.
  bool done() const { return done_; }

 private:
  std::string_view text_;
  bool begins_;
  std::size_t lead_, at_ = 0, out_ = 0;
  bool done_ = false;
};

struct Stretch;

/// The lead of a text whose matches are replaced by `bytes` bytes each.
std::size_t lead_of_replaced(const std::vector<Stretch>& stretches, std::size_t bytes, bool begins, std::size_t lead);

}  // namespace anyaccel::llm
