// Lists of CPU numbers as Linux writes them: "0-3,8,10-11".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::topology {

/// Operating system's CPU numbers, ascending, each once.
using CpuList = std::vector<int>;

/// Reads such a list, sorted or not; "" is the empty list. Throws `invalid_argument` for anything
/// else.
CpuList parse_cpu_list(std::string_view text);
/// Writes it with ranges.
ANYACCEL_API std::string format_cpu_list(const CpuList& cpus);
/// What is in both.
CpuList intersect(const CpuList& a, const CpuList& b);

}  // namespace anyaccel::topology
