#include "base/shell.h"

#include <algorithm>
#include <cstring>

namespace anyaccel {

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::strchr("_-+=./,:@%", c) != nullptr;
    });
    if (!out.empty()) out += ' ';
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

}  // namespace anyaccel
