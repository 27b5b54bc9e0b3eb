// Processes UTF-8, character by character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel::llm {

struct Utf8Character {
  char32_t code;       ///< U+FFFD for invalid bytes
  std::size_t length;  ///< in bytes, at least 1
  bool valid;
};

/// Returns the first character of a non-empty text. Groups invalid bytes as Python and Rust do when
/// they replace them.
Utf8Character utf8_front(std::string_view text);

void append_utf8(std::string& out, char32_t code);

bool is_utf8(std::string_view text);

/// Replaces invalid bytes with U+FFFD, like Python's bytes.decode(errors="replace").
ANYACCEL_API std::string utf8_lossy(std::string_view text);

/// Calls `f(character, its bytes)` for each character.
template <typename F>
void for_each_character(std::string_view text, F&& f) {
  while (!text.empty()) {
    const Utf8Character front = utf8_front(text);
    f(front.code, text.substr(0, front.length));
    text.remove_prefix(front.length);
  }
}

}  // namespace anyaccel::llm
