// Options of other launchers: torchrun, mpirun, mpiexec, srun, accelerate, and unsupported versions
// of DeepSpeed.
#pragma once

#include <string>
#include <string_view>

namespace anyaccel::launch {

/// Returns advice for another launcher's option, without a final period: "that is torchrun's; use
/// --num_nodes N". Returns an empty string if no launcher in the table has the option. `-` and `_`
/// are equivalent. The number of leading dashes is ignored for names of two or more letters.
std::string foreign_option(std::string_view name);

}  // namespace anyaccel::launch
