#include "text/chat/strings.h"

#include <algorithm>
#include <cstdint>

#include "text/tokenizer/utf8.h"

namespace anyaccel::llm::chat {

namespace {

bool in_set(std::string_view character, std::string_view set) {
  while (!set.empty()) {
    const std::size_t length = utf8_front(set).length;
    if (set.substr(0, length) == character) return true;
    set.remove_prefix(length);
  }
  return false;
}

/// Returns the last character of a non-empty text.
std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return text.substr(begin);
}

template <typename F>
std::string_view strip_left_if(std::string_view text, F drop) {
  while (!text.empty()) {
    const std::string_view first = text.substr(0, utf8_front(text).length);
    if (!drop(first)) break;
    text.remove_prefix(first.size());
  }
  return text;
}

template <typename F>
std::string_view strip_right_if(std::string_view text, F drop) {
  while (!text.empty()) {
    const std::string_view last = last_character(text);
    if (!drop(last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

bool space(std::string_view character) { return is_space(utf8_front(character).code); }

std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit,
                                          bool from_right) {
  std::vector<std::string_view> parts;
  text = from_right ? strip_right(text) : strip_left(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) {
      parts.push_back(from_right ? strip_right(text) : text);
      break;
    }
    const auto word = [](std::string_view character) { return !space(character); };
    const std::string_view after =
        from_right ? strip_right_if(text, word) : strip_left_if(text, word);
    parts.push_back(from_right ? text.substr(after.size())
                               : text.substr(0, text.size() - after.size()));
    text = from_right ? strip_right(after) : strip_left(after);
  }
  return parts;
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::string_view strip_left(std::string_view text) { return strip_left_if(text, space); }
std::string_view strip_right(std::string_view text) { return strip_right_if(text, space); }

std::string_view strip_left(std::string_view text, std::string_view set) {
  return strip_left_if(text, [&](std::string_view character) { return in_set(character, set); });
}

std::string_view strip_right(std::string_view text, std::string_view set) {
  return strip_right_if(text, [&](std::string_view character) { return in_set(character, set); });
}

std::int64_t character_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for_each_character(text, [&](char32_t, std::string_view bytes) { out.push_back(bytes); });
  return out;
}

std::vector<std::string_view> split(std::string_view text,
                                    const std::optional<std::string>& separator, std::int64_t limit,
                                    bool from_right) {
  std::vector<std::string_view> parts;
  if (!separator) {
    parts = split_space(text, limit, from_right);
  } else {
    while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
      const std::size_t found = from_right ? text.rfind(*separator) : text.find(*separator);
      if (found == std::string_view::npos) break;
      const std::string_view before = text.substr(0, found),
                             after = text.substr(found + separator->size());
      parts.push_back(from_right ? after : before);
      text = from_right ? before : after;
    }
    parts.push_back(text);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::size_t replaced_size(std::string_view text, std::string_view from, std::string_view to,
                          std::int64_t limit) {
  std::size_t count = from.empty() ? text.size() + 1 : 0;
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string_view::npos;
       at += from.size())
    ++count;
  if (limit >= 0) count = std::min(count, static_cast<std::size_t>(limit));
  std::size_t size = 0;
  return __builtin_mul_overflow(count, to.size(), &size) ||
                 __builtin_add_overflow(size, text.size(), &size)
             ? SIZE_MAX
             : size;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t limit) {
  std::string out;
  for (; limit != 0; --limit) {
    const std::size_t found = text.find(from);
    if (found == std::string_view::npos) break;
    // An empty string matches before every character and at the end.
    const std::size_t step = !from.empty() ? found : text.empty() ? 0 : utf8_front(text).length;
    if (from.empty()) out += to;
    out += text.substr(0, step);
    if (!from.empty()) out += to;
    if (from.empty() && text.empty()) return out;
    text.remove_prefix(step + from.size());
  }
  out += text;
  return out;
}

}  // namespace anyaccel::llm::chat
