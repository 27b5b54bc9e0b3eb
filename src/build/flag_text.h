// Predicates for the lists of accepted compiler flags. Internal to src/build.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace anyaccel::build {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

inline bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

inline bool is_word(std::string_view text, std::string_view more = "_-+.") {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || more.find(c) != more.npos;
  });
}

template <typename List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

template <typename List>
bool starts_with_one_of(const List& list, std::string_view text) {
  return std::any_of(std::begin(list), std::end(list),
                     [&](std::string_view start) { return text.starts_with(start); });
}

/// Removes the prefix `start`; returns false if there is none.
inline bool skip(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

}  // namespace anyaccel::build
