#include "topology/arm_processor.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace anyaccel::topology {

namespace {

struct Vendor {
  unsigned implementer;
  const char* name;
};
constexpr Vendor kVendors[] = {{0x41, "ARM"},       {0x42, "Broadcom"},  {0x43, "Cavium"},
                               {0x46, "FUJITSU"},   {0x48, "HiSilicon"}, {0x4e, "NVIDIA"},
                               {0x50, "APM"},       {0x51, "Qualcomm"},  {0x61, "Apple"},
                               {0x6d, "Microsoft"}, {0x70, "Phytium"},   {0xc0, "Ampere"}};

struct Part {
  unsigned implementer, part;
  const char* name;
};
/// Processors of servers, and of boards on which they are often tested. The names are those that
/// lscpu prints.
constexpr Part kParts[] = {{0x41, 0xd03, "Cortex-A53"},
                           {0x41, 0xd07, "Cortex-A57"},
                           {0x41, 0xd08, "Cortex-A72"},
                           {0x41, 0xd0b, "Cortex-A76"},
                           {0x41, 0xd0c, "Neoverse-N1"},
                           {0x41, 0xd40, "Neoverse-V1"},
                           {0x41, 0xd49, "Neoverse-N2"},
                           {0x41, 0xd4a, "Neoverse-E1"},
                           {0x41, 0xd4f, "Neoverse-V2"},
                           {0x41, 0xd84, "Neoverse-V3"},
                           {0x41, 0xd8e, "Neoverse-N3"},
                           {0x42, 0x516, "ThunderX2"},
                           {0x43, 0x0a1, "ThunderX-88XX"},
                           {0x43, 0x0af, "ThunderX2-99xx"},
                           {0x46, 0x001, "A64FX"},
                           {0x48, 0xd01, "TaiShan-v110"},
                           {0x48, 0xd02, "TaiShan-v120"},
                           {0x4e, 0x004, "Carmel"},
                           {0x50, 0x000, "X-Gene"},
                           {0x51, 0xc00, "Falkor"},
                           {0x6d, 0xd49, "Azure-Cobalt-100"},
                           {0x70, 0x662, "FTC662"},
                           {0x70, 0x663, "FTC663"},
                           {0xc0, 0xac3, "Ampere-1"},
                           {0xc0, 0xac4, "Ampere-1a"}};

std::optional<unsigned> number(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ArmProcessor arm_processor(const std::string& implementer, const std::string& part) {
  const auto vendor = number(implementer), model = number(part);
  if (!vendor || !model) return {};
  ArmProcessor out{.vendor = "implementer " + implementer, .model = "ARM processor, part " + part};
  for (const auto& each : kVendors)
    if (each.implementer == *vendor) out.vendor = each.name;
  for (const auto& each : kParts)
    if (each.implementer == *vendor && each.part == *model) out.model = each.name;
  return out;
}

}  // namespace anyaccel::topology
