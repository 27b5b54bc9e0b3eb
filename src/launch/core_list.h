// Parses the argument of `--bind_core_list`.
#pragma once

#include <string_view>

#include "anyaccel/export.h"
#include "topology/cpu_list.h"

namespace anyaccel::launch {

/// Parses CPU numbers, ranges and ranges with a stride, separated by commas: "0-3,8,16-31:2". The
/// order does not matter, duplicates are ignored, and spaces around commas are allowed. Throws
/// `invalid_argument` for anything else, including an empty list.
ANYACCEL_API topology::CpuList parse_core_list(std::string_view text);

}  // namespace anyaccel::launch
