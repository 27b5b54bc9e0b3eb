// Pre-tokenizer: splits text before BPE merges. For the vocabularies that we train.
#pragma once

#include <cstddef>
#include <string_view>

namespace anyaccel::llm {

/// The split as a regular expression, for tokenizer.json. A word includes at most one preceding
/// character, which may be any character except a letter, a digit or a line break. These are
/// separate pre-tokens: up to three digits, a run of punctuation with the newlines after it, and
/// whitespace. Bytes above 127 count as letters.
inline constexpr const char* kTextPieces =
    R"([^\r\n0-9A-Za-z\x{80}-\x{10ffff}]?[A-Za-z\x{80}-\x{10ffff}]+|[0-9]{1,3}| ?[\x00-\x08\x0e-\x1f!-/:-@\[-`{-\x7f]+[\r\n]*|)"
    R"([\t-\r ]*[\r\n]+|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]+)";

/// Returns the length of the first pre-token of a non-empty text. Splits in the same way as
/// kTextPieces.
std::size_t piece_length(std::string_view text);

}  // namespace anyaccel::llm
