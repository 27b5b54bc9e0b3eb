// Patterns of names, as --case of the conformance kit and tensor-parallel plans take them.
#pragma once

#include <string_view>

namespace anyaccel {

/// True when `text` is what `pattern` says; `*` stands for any text, also none. Takes at most the
/// product of both lengths: patterns come from strangers' files, too.
inline bool matches_pattern(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0, t = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace anyaccel
