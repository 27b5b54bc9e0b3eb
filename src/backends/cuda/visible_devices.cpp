#include "backends/cuda/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "base/trimmed.h"

namespace anyaccel::backends::cuda {

namespace {

constexpr std::size_t kLongestValue = 64 * 1024;
constexpr std::string_view kGpu = "GPU-";
constexpr std::string_view kMig = "MIG-";
constexpr std::string_view kOldMig = "MIG-GPU-";

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

/// Returns the device itself, or its first instance if only instances can be used.
std::optional<VisibleDevice> whole(int physical, const std::vector<PhysicalDevice>& machine) {
  const auto& device = machine[static_cast<std::size_t>(physical)];
  if (!device.mig) return VisibleDevice{physical, -1};
  if (device.instances.empty()) return std::nullopt;
  return VisibleDevice{physical, 0};
}

/// Parses like CUDA, which uses strtoul(): "1gpu2" is 1.
std::optional<VisibleDevice> by_index(std::string_view entry,
                                      const std::vector<PhysicalDevice>& machine) {
  if (!entry.empty() && entry.front() == '+') entry.remove_prefix(1);
  unsigned number = 0;
  const auto result = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (result.ec != std::errc() || number >= machine.size()) return std::nullopt;
  return whole(static_cast<int>(number), machine);
}

/// Returns the only device whose UUID begins with `start`.
std::optional<VisibleDevice> by_gpu_uuid(std::string_view start,
                                         const std::vector<PhysicalDevice>& machine) {
  int found = -1;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    if (!starts_with_ignoring_case(machine[i].uuid, start)) continue;
    if (found >= 0) return std::nullopt;
    found = static_cast<int>(i);
  }
  return found < 0 ? std::nullopt : whole(found, machine);
}

/// The format of drivers before 470: "MIG-GPU-<uuid>/<gpu instance>/<compute instance>".
std::optional<VisibleDevice> by_instance_ids(std::string_view entry,
                                             const std::vector<PhysicalDevice>& machine) {
  const auto first = entry.find('/');
  const auto second = first == std::string_view::npos ? first : entry.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  int gpu_instance = -1, compute_instance = -1;
  const auto number = [](std::string_view text, int& out) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && stop == text.data() + text.size();
  };
  if (!number(entry.substr(first + 1, second - first - 1), gpu_instance) ||
      !number(entry.substr(second + 1), compute_instance))
    return std::nullopt;
  const auto gpu = by_gpu_uuid(entry.substr(kMig.size(), first - kMig.size()), machine);
  if (!gpu) return std::nullopt;
  const auto& instances = machine[static_cast<std::size_t>(gpu->physical)].instances;
  for (std::size_t i = 0; i < instances.size(); ++i)
    if (instances[i].gpu_instance == gpu_instance &&
        instances[i].compute_instance == compute_instance)
      return VisibleDevice{gpu->physical, static_cast<int>(i)};
  return std::nullopt;
}

std::optional<VisibleDevice> by_mig_uuid(std::string_view start,
                                         const std::vector<PhysicalDevice>& machine) {
  std::optional<VisibleDevice> found;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t k = 0; k < machine[i].instances.size(); ++k) {
      if (!starts_with_ignoring_case(machine[i].instances[k].uuid, start)) continue;
      if (found) return std::nullopt;
      found = VisibleDevice{static_cast<int>(i), static_cast<int>(k)};
    }
  }
  return found;
}

std::optional<VisibleDevice> find(std::string_view entry,
                                  const std::vector<PhysicalDevice>& machine) {
  if (starts_with_ignoring_case(entry, kOldMig)) return by_instance_ids(entry, machine);
  if (starts_with_ignoring_case(entry, kMig)) return by_mig_uuid(entry, machine);
  if (starts_with_ignoring_case(entry, kGpu)) return by_gpu_uuid(entry, machine);
  return by_index(entry, machine);
}

/// CUDA enumerates either whole devices or one MIG instance.
std::vector<VisibleDevice> as_enumerated(std::vector<VisibleDevice> devices) {
  for (const auto& device : devices)
    if (device.instance >= 0) return {device};
  return devices;
}

}  // namespace

std::vector<VisibleDevice> visible_devices(std::optional<std::string_view> value,
                                           const std::vector<PhysicalDevice>& machine) {
  std::vector<VisibleDevice> devices;
  if (!value) {
    for (std::size_t i = 0; i < machine.size(); ++i)
      if (const auto device = whole(static_cast<int>(i), machine)) devices.push_back(*device);
    return as_enumerated(std::move(devices));
  }
  const auto list = value->substr(0, kLongestValue);
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto device = find(trimmed(list.substr(begin, comma - begin)), machine);
    if (!device) break;
    if (std::find(devices.begin(), devices.end(), *device) != devices.end()) return {};
    devices.push_back(*device);
    begin = comma + 1;
  }
  return as_enumerated(std::move(devices));
}

}  // namespace anyaccel::backends::cuda
