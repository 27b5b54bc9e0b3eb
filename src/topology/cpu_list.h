// CPU lists in the "List format" of Linux's cpuset(7): "0-3,8,10-11".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::topology {

/// The operating system's CPU numbers, ascending and without duplicates.
using CpuList = std::vector<int>;

/// Parses a list, sorted or not; "" is the empty list. Throws `invalid_argument` for any other
/// text.
CpuList parse_cpu_list(std::string_view text);
/// Formats a list, using ranges for consecutive numbers.
ANYACCEL_API std::string format_cpu_list(const CpuList& cpus);
/// Returns the CPUs that are in both lists.
CpuList intersect(const CpuList& a, const CpuList& b);

}  // namespace anyaccel::topology
