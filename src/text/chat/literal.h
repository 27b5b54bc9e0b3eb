// String and number literals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anyaccel::llm::chat {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Returns the length of the quoted string at the beginning of `text`, or 0 if it is unterminated.
std::size_t string_literal_length(std::string_view text);
/// Returns the value of a string literal, given without its quotes. Supports Python's escapes.
std::string string_literal(std::string_view inside, int line);

struct NumberLiteral {
  std::size_t length = 0;
  bool whole = true;
  std::int64_t integer = 0;
  double number = 0;
};

/// Parses the number at the beginning of `text`. Throws `unsupported` for integers beyond 64 bits.
NumberLiteral number_literal(std::string_view text, bool may_be_fraction, int line);

}  // namespace anyaccel::llm::chat
