#include "base/device_files.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "base/trimmed.h"

namespace anyaccel {

namespace {

namespace fs = std::filesystem;

/// Returns the number in `text`, or -1 if `text` is not an integer.
int parse_number(std::string_view text) noexcept {
  int number = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size() ? number : -1;
}

bool of_this_maker(const DeviceFiles& files, const fs::path& device) {
  if (files.attribute == nullptr) return true;
  const auto value = try_read_file(device / files.attribute);
  return value && trimmed(*value) == files.attribute_value;
}

/// Returns true if a variable selects devices. Most vendors ignore an empty variable.
bool applies(const char* variable, VisibleIds ids) {
  const char* value = std::getenv(variable);
  const bool empty_counts = ids == VisibleIds::ascending || ids == VisibleIds::unique;
  return value != nullptr && (empty_counts || *value != '\0');
}

sdk::Probe probe(const DeviceFiles& files) {
  const auto folder = fs::path(env("ANYACCEL_DEVICE_ROOT").value_or("/")) / files.folder;
  const auto numbers = numbered_files(folder, files.prefix);
  const auto present =
      static_cast<int>(std::count_if(numbers.begin(), numbers.end(), [&](int number) {
        return of_this_maker(files, folder / (files.prefix + std::to_string(number)));
      }));
  const auto pattern = (folder / files.prefix).string() + "*";
  const std::string maker = files.attribute == nullptr ? std::string()
                                                       : std::string(" whose ") + files.attribute +
                                                             " is " + files.attribute_value;
  if (present == 0) return {.device_count = 0, .reason = "no file matches " + pattern + maker};
  const auto found = pattern + maker;
  const auto* variable = std::find_if(
      files.visible.begin(), files.visible.end(),
      [&](const char* name) { return name != nullptr && applies(name, files.visible_ids); });
  if (variable == files.visible.end()) return {.device_count = present, .reason = found};
  const std::string list = std::getenv(*variable);
  const int count = count_visible(list, present, files.visible_ids);
  return {.device_count = count,
          .reason = found + "; " + *variable + "=" + list + " selects " + std::to_string(count) +
                    " of " + std::to_string(present)};
}

}  // namespace

std::vector<int> numbered_files(const fs::path& folder, std::string_view prefix) noexcept {
  std::vector<int> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) continue;
    const int number = parse_number(std::string_view(name).substr(prefix.size()));
    if (number >= 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

int count_visible(std::string_view list, int present, VisibleIds ids) noexcept {
  if (ids == VisibleIds::ascending) list = list.substr(0, list.find_first_not_of("0123456789,"));
  // Cambricon's package treats a long list with a hyphen as UUIDs.
  const bool uuids = ids == VisibleIds::unique && list.size() >= 36 && list.find('-') != list.npos;
  std::set<std::string_view> seen;
  std::optional<std::size_t> in_range;  // number of entries before the first that is out of range
  int last = -1;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto entry = trimmed(list.substr(begin, comma - begin));
    begin = comma + 1;
    const int number = parse_number(entry);
    const bool is_index = !uuids && ids != VisibleIds::opaque;
    const bool valid = is_index ? number >= 0
                       : uuids  ? entry.find('-') != entry.npos
                                : !entry.empty();
    if (!valid) break;
    if (ids == VisibleIds::ascending && number <= last) return 0;
    last = number;
    if (!seen.insert(entry).second) {
      if (ids == VisibleIds::unique) return 0;
      break;
    }
    if (is_index && number >= present && !in_range) {
      in_range = seen.size() - 1;
      if (ids != VisibleIds::unique) break;  // Cambricon looks for repeated entries first
    }
  }
  return std::min(static_cast<int>(in_range.value_or(seen.size())), present);
}

sdk::Probe probe_device_files(const DeviceFiles& files) noexcept {
  try {
    return probe(files);
  } catch (const std::exception& error) {
    return {.device_count = 0,
            .reason = std::string("its device files cannot be read: ") + error.what()};
  }
}

}  // namespace anyaccel
