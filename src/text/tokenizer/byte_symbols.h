// GPT-2's printable characters for bytes. Byte-level tokenizers write their vocabularies in these
// characters.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace anyaccel::llm {

/// The UTF-8 character for each byte: the byte's own character if printable, otherwise the next
/// unused character from U+0100 on.
const std::array<std::string, 256>& byte_symbols();

/// Converts a token in those characters to bytes. Returns nullopt if it contains any other
/// character.
std::optional<std::string> bytes_of_symbols(std::string_view word);

}  // namespace anyaccel::llm
