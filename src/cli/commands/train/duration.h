// Durations as text.
#pragma once

#include <cstdio>
#include <string>

namespace anyaccel::cli {

/// Returns minutes and seconds, for example "2:05".
inline std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  char text[32];
  std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace anyaccel::cli
