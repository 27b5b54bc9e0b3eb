#include "text/chat/literal.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "text/chat/errors.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm::chat {

namespace {

/// Parses the digits after \x, \u or \U, or up to three octal digits, and moves `place` past them.
char32_t escaped_code(std::string_view text, std::size_t& place, std::size_t digits, int base,
                      int line) {
  std::uint32_t code = 0;
  const char* begin = text.data() + place;
  const char* end = begin + std::min(digits, text.size() - place);
  const auto [stop, status] = std::from_chars(begin, end, code, base);
  const bool complete = base == 8 || static_cast<std::size_t>(stop - begin) == digits;
  if (status != std::errc() || !complete || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    syntax_error(line,
                 "a string has the invalid escape " + quoted(text.substr(place - 2, digits + 2)));
  place += static_cast<std::size_t>(stop - begin);
  return code;
}

/// Length of a run of digits with single underscores between them.
std::size_t digits_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (is_digit(text[length]) || (length > 0 && text[length] == '_' &&
                                     length + 1 < text.size() && is_digit(text[length + 1]))))
    ++length;
  return length;
}

}  // namespace

std::size_t string_literal_length(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == text.front())
      return i + 1;
  }
  return 0;
}

std::string string_literal(std::string_view inside, int line) {
  std::string out;
  for (std::size_t i = 0; i < inside.size();) {
    if (inside[i] != '\\') {
      out += inside[i++];
      continue;
    }
    const char c = inside[i + 1];  // in range: a terminated string does not end with a backslash
    i += 2;
    constexpr std::string_view kLetters = "nrtbfav\\'\"", kValues = "\n\r\t\b\f\a\v\\'\"";
    if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
      out += kValues[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_utf8(out, escaped_code(inside, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, line));
    } else if (c >= '0' && c <= '7') {
      append_utf8(out, escaped_code(inside, --i, 3, 8, line));
    } else if (c == 'N') {
      outside_subset(line, "the escape \\N in a string");
    } else if (c != '\n') {
      out += {'\\', c};
    }
  }
  return out;
}

NumberLiteral number_literal(std::string_view text, bool may_be_fraction, int line) {
  int base = 10;
  std::size_t prefix = 0;
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    prefix = base == 10 ? 0 : 2;
  }
  NumberLiteral out;
  if (base != 10) {
    const auto [stop, status] =
        std::from_chars(text.data() + prefix, text.data() + text.size(), out.integer, base);
    if (status != std::errc() || text[prefix] == '-')
      outside_subset(line, "the number " + quoted(text.substr(0, 20)));
    out.length = static_cast<std::size_t>(stop - text.data());
    return out;
  }
  out.length = digits_length(text);
  std::size_t end = out.length;
  if (may_be_fraction) {
    if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]))
      end += 1 + digits_length(text.substr(end + 1));
    if (end < text.size() && (text[end] | 0x20) == 'e') {
      const std::size_t sign =
          end + 1 < text.size() && (text[end + 1] == '-' || text[end + 1] == '+') ? 1 : 0;
      const std::size_t exponent =
          end + 1 + sign < text.size() ? digits_length(text.substr(end + 1 + sign)) : 0;
      if (exponent > 0) end += 1 + sign + exponent;
    }
  }
  out.whole = end == out.length;
  out.length = end;
  std::string plain;
  for (const char c : text.substr(0, end)) {
    if (c != '_') plain += c;
  }
  const auto parsed = out.whole
                          ? std::from_chars(plain.data(), plain.data() + plain.size(), out.integer)
                          : std::from_chars(plain.data(), plain.data() + plain.size(), out.number);
  if (parsed.ec != std::errc())
    outside_subset(line, "the number " + quoted(plain) + ", which does not fit in 64 bits,");
  return out;
}

}  // namespace anyaccel::llm::chat
