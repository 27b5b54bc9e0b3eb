// A text during normalization, with the number of leading bytes that come from the beginning of the
// whole text.
//
// With the scheme "first", Metaspace prepends its replacement character to a pre-token whose first
// byte is aligned to byte 0 of the original text. The `tokenizers` library keeps an alignment for
// each byte (NormalizedString). Alignments never decrease, so results depend only on the number of
// leading bytes that are aligned to byte 0. This number is called the lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/text_limit.h"

namespace anyaccel::llm {

/// Part of a text. It is valid UTF-8.
struct NormalizedText {
  std::string text;
  bool begins = false;   ///< true if the part is the beginning of the whole text
  std::size_t lead = 0;  ///< number of leading bytes aligned to byte 0 of the whole text
  TextLimit limit = TextLimit::of(0);

  /// Returns a part of a whole text. `begins`: true for the first part.
  static NormalizedText part(std::string_view text, bool begins, TextLimit limit);
};

/// Computes how many leading bytes of the new text are aligned to byte 0 of the whole text, for a
/// normalizer that rewrites a text character by character.
class LeadTracker {
 public:
  explicit LeadTracker(const NormalizedText& text)
      : LeadTracker(text.text, text.begins, text.lead) {}
  LeadTracker(std::string_view text, bool begins, std::size_t lead)
      : text_(text), begins_(begins), lead_(lead) {}

  /// Adds a character of the new text with its size in bytes. `change` has the same meaning as in
  /// the `tokenizers` library: 0 replaces a character of the old text, -n replaces n + 1
  /// characters, and 1 inserts the character without replacing any.
  void add(std::size_t bytes, std::int64_t change);
  /// Number of leading bytes aligned to byte 0, based on the characters added so far.
  std::size_t lead() const { return out_; }
  /// True if further characters cannot change the lead.
  bool done() const { return done_; }

 private:
  std::string_view text_;
  bool begins_;
  std::size_t lead_, at_ = 0, out_ = 0;
  bool done_ = false;
};

struct Stretch;

/// Returns how many leading bytes are aligned to byte 0 after each match is replaced by `bytes`
/// bytes. `lead` is the number before the replacement.
std::size_t lead_of_replaced(const std::vector<Stretch>& stretches, std::size_t bytes, bool begins,
                             std::size_t lead);

}  // namespace anyaccel::llm
