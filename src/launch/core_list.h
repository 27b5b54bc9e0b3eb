// The list of `--bind_core_list`.
#pragma once

#include <string_view>

#include "anyaccel/export.h"
#include "topology/cpu_list.h"

namespace anyaccel::launch {

/// Reads "0-3,8,10-12": CPU numbers and ranges with commas, in any order, twice is once, and ranges
/// with a stride, "0-31:2". Blanks around commas are allowed. Throws `invalid_argument` for
/// anything else, the empty list included.
ANYACCEL_API topology::CpuList parse_core_list(std::string_view text);

}  // namespace anyaccel::launch
