// GPT-2's printable stand-ins for bytes: vocabularies of byte-level tokenizers are written in them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace anyaccel::llm {

/// The character, in UTF-8, that stands for each byte: itself where printable, otherwise U+0100 and
/// up in order.
const std::array<std::string, 256>& byte_symbols();

/// The bytes that a word in those characters stands for; nothing when it has any other character.
std::optional<std::string> bytes_of_symbols(std::string_view word);

}  // namespace anyaccel::llm
