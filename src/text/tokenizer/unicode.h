// Unicode properties of characters, from ICU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

bool is_whitespace(char32_t c);       ///< property White_Space
bool is_word(char32_t c);             ///< \w in Rust's regex
bool is_punctuation(char32_t c);      ///< category P, and all ASCII symbols
bool is_numeric(char32_t c);          ///< category N
bool is_mark(char32_t c);             ///< category M
bool is_mark_nonspacing(char32_t c);  ///< category Mn
bool is_other(char32_t c);            ///< category C except unassigned characters
bool is_cjk(char32_t c);              ///< BERT's CJK character ranges

/// Appends the character in lower case, regardless of neighboring characters, like Rust's
/// char::to_lowercase.
void append_lowercase(std::string& out, char32_t c);
/// Returns valid UTF-8 with each character in lower case.
ANYACCEL_API std::string lowercase(std::string_view text);

/// Returns the text's grapheme clusters, in order, as views into `text`.
std::vector<std::string_view> graphemes(std::string_view text);

}  // namespace anyaccel::llm
