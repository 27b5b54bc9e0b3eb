// Strips leading and trailing whitespace.
#pragma once

#include <string_view>

namespace anyaccel {

/// The whitespace characters: those that C's isspace() accepts in the "C" locale.
inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

/// Returns `text` without leading and trailing whitespace.
constexpr std::string_view trimmed(std::string_view text) noexcept {
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace anyaccel
