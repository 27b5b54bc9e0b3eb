#include "backends/sim/traits.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace anyaccel::backends::sim {

namespace {

/// Returns -1 if the entry does not name a device.
int find_device(std::string_view entry, int devices) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = entry.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return -1;
  entry = entry.substr(first, entry.find_last_not_of(kBlank) - first + 1);
  if (entry.starts_with("GPU-")) {
    int found = -1;
    for (int i = 0; i < devices; ++i) {
      if (!("GPU-" + device_uuid(i)).starts_with(entry)) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }
  unsigned number = 0;
  // Like CUDA, ignores text after the number.
  const auto result = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  return result.ec != std::errc() || number >= static_cast<unsigned>(devices)
             ? -1
             : static_cast<int>(number);
}

}  // namespace

std::string device_uuid(int device) {
  char text[40];
  std::snprintf(text, sizeof text, "00000000-0000-0000-0000-%012d", device);
  return text;
}

std::vector<int> select_devices(std::string_view list, int devices) {
  std::vector<int> selected;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const int device = find_device(list.substr(begin, comma - begin), devices);
    if (device < 0) break;
    if (std::find(selected.begin(), selected.end(), device) != selected.end()) return {};
    selected.push_back(device);
    begin = comma + 1;
  }
  return selected;
}

}  // namespace anyaccel::backends::sim
