#include "base/untrusted_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace anyaccel {

namespace {

struct Range {
  char32_t first, last;
};

// Control characters, line separators, default-ignorable code points and invisible format
// characters, sorted.
constexpr std::array<Range, 19> kInvisible{{{0x7f, 0x9f},
                                            {0xad, 0xad},
                                            {0x34f, 0x34f},
                                            {0x61c, 0x61c},
                                            {0x115f, 0x1160},
                                            {0x17b4, 0x17b5},
                                            {0x180b, 0x180f},
                                            {0x200b, 0x200f},
                                            {0x2028, 0x202e},
                                            {0x2060, 0x206f},
                                            {0x3164, 0x3164},
                                            {0xfe00, 0xfe0f},
                                            {0xfeff, 0xfeff},
                                            {0xffa0, 0xffa0},
                                            {0xfff0, 0xfffb},
                                            {0x13430, 0x1343f},
                                            {0x1bca0, 0x1bca3},
                                            {0x1d173, 0x1d17a},
                                            {0xe0000, 0xe0fff}}};

bool is_invisible(char32_t c) {
  if (c < 0x20) return true;
  const auto* const range =
      std::lower_bound(kInvisible.begin(), kInvisible.end(), c,
                       [](const Range& one, char32_t value) { return one.last < value; });
  return range != kInvisible.end() && range->first <= c;
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

struct Character {
  char32_t code;
  std::size_t bytes;
  bool valid;
};

/// Returns the first character of the text, or its first byte if the text does not begin with valid
/// UTF-8.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const Character invalid{lead, 1, false};
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return invalid;
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i])) return invalid;
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  const bool overlong = code < (bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return invalid;
  return {code, bytes, true};
}

std::string numbered_escape(const Character& c) {
  std::array<char, 16> out{};
  const char* form = c.code > 0xffff             ? "\\U%08x"
                     : !c.valid || c.code < 0x80 ? "\\x%02x"
                                                 : "\\u%04x";
  std::snprintf(out.data(), out.size(), form, static_cast<unsigned>(c.code));
  return out.data();
}

std::string escape_of(const Character& c) {
  switch (c.code) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: return numbered_escape(c);
  }
}

}  // namespace

std::string quoted_text(std::string_view text, std::size_t limit) {
  std::string out = "\"";
  std::size_t printed = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = first_character(text.substr(at, 4));
    const bool plain = c.valid && c.code != '"' && c.code != '\\' && !is_invisible(c.code);
    const auto shown = plain ? std::string(text.substr(at, c.bytes)) : escape_of(c);
    printed += plain ? 1 : shown.size();
    if (printed > limit) return out + "...\" (" + std::to_string(text.size()) + " bytes)";
    out += shown;
    at += c.bytes;
  }
  return out + '"';
}

std::string printable_text(std::string_view text, std::size_t limit) {
  // Keep the end as well: AnyAccel's messages end with a hint, and a program's last output is often
  // the most important.
  std::size_t head = text.size();
  std::size_t tail = text.size();
  if (text.size() > limit) {
    head = limit - limit / 4;
    tail = text.size() - limit / 4;
    for (int i = 0; i < 3 && head > 0 && continues(text[head]); ++i) --head;
    for (int i = 0; i < 3 && tail < text.size() && continues(text[tail]); ++i) ++tail;
  }
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at == head) {
      out += " ... (" + std::to_string(tail - head) + " bytes left out) ... ";
      at = tail;
      continue;
    }
    // Do not split a UTF-8 character.
    const auto c = first_character(
        text.substr(at, std::min<std::size_t>(4, (at < head ? head : text.size()) - at)));
    if (c.valid && (c.code == '\n' || c.code == '\t' || !is_invisible(c.code)))
      out += text.substr(at, c.bytes);
    else
      out += numbered_escape(c);
    at += c.bytes;
  }
  return out;
}

std::string terminal_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = first_character(text.substr(at, 4));
    const bool control = c.code < 0x20 || (c.code >= 0x7f && c.code < 0xa0);
    if (control && c.code != '\n' && c.code != '\t' && c.code != '\r')
      out += numbered_escape(c);
    else
      out += text.substr(at, c.bytes);
    at += c.bytes;
  }
  return out;
}

std::string shortened_list(std::span<const std::int64_t> numbers, std::size_t limit) {
  std::string out = "[";
  for (std::size_t i = 0; i < std::min(limit, numbers.size()); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  if (numbers.size() > limit) out += ", ... (" + std::to_string(numbers.size()) + " numbers)";
  return out + ']';
}

}  // namespace anyaccel
