// Names of ARM processors. On ARM, /proc/cpuinfo contains numbers instead of names.
#pragma once

#include <string>

namespace anyaccel::topology {

struct ArmProcessor {
  std::string vendor, model;
};

/// Returns the names for the values of "CPU implementer" and "CPU part" in /proc/cpuinfo, such as
/// "0x41" and "0xd0c". An unknown part is named by its numbers. Both names are empty if
/// `implementer` or `part` is not a number.
ArmProcessor arm_processor(const std::string& implementer, const std::string& part);

}  // namespace anyaccel::topology
