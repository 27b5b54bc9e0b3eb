#include "base/plugin/plugin_file.h"

namespace anyaccel {

bool is_reserved_name(std::string_view name) noexcept {
  // Made by CMake: words with a space before and after each.
  static constexpr std::string_view kNames = ANYACCEL_RESERVED_NAMES;
  if (name.empty() || name.find(' ') != std::string_view::npos) return false;
  for (auto place = kNames.find(name); place != std::string_view::npos;
       place = kNames.find(name, place + 1))
    if (kNames[place - 1] == ' ' && kNames[place + name.size()] == ' ') return true;
  return false;
}

}  // namespace anyaccel
