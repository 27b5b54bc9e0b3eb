// Name patterns for the conformance kit's `--case`, for tensor-parallel plans and for the
// simulator's suppressions.
#pragma once

#include <string_view>

namespace anyaccel {

/// Return whether `text` matches `pattern`, in which `*` matches any text, including none. The
/// running time is at most proportional to the product of both lengths, even for malicious
/// patterns, because patterns can come from untrusted files.
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
