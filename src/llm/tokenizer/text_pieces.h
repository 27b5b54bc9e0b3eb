// How the vocabularies that we train cut a text before they merge bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace anyaccel::llm {

/// The cut as a regular expression, for tokenizer.json. Words keep the one space, mark or underscore in front of them; up to
/// three digits, a run of marks with the newlines after it, and white space are pieces of their own. Bytes above 127 count
/// as letters.
inline constexpr const char* kTextPieces =
    R"([^\r\n0-9A-Za-z\x{80}-\x{10ffff}]?[A-Za-z\x{80}-\x{10ffff}]+|[0-9]{1,3}| ?[\x00-\x08\x0e-\x1f!-/:-@\[-`{-\x7f]+[\r\n]*|)"
    R"([\t-\r ]*[\r\n]+|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]+)";

/// Length of the piece at the beginning of `text`, which is not empty. Gives the same pieces as the expression.
std::size_t piece_length(std::string_view text);

}  // namespace anyaccel::llm
