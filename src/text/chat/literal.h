// Strings and numbers as a template writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anyaccel::llm::chat {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Bytes of the string in quotes with which `text` begins; 0 when it does not end.
std::size_t string_literal_length(std::string_view text);
/// Its value, without the quotes: Python's escapes.
std::string string_literal(std::string_view inside, int line);

struct NumberLiteral {
  std::size_t length = 0;
  bool whole = true;
  std::int64_t integer = 0;
  double number = 0;
};

/// The number with which `text` begins. Throws `unsupported` for integers beyond 64 bits.
NumberLiteral number_literal(std::string_view text, bool may_be_fraction, int line);

}  // namespace anyaccel::llm::chat
