// Options of other launchers: torchrun, mpirun, mpiexec, srun, accelerate and the DeepSpeed versions that we do not follow.
#pragma once

#include <string>
#include <string_view>

namespace anyaccel::launch {

/// What to write instead of another launcher's option, as a sentence without its end: "that is torchrun's; use --num_nodes N".
/// Empty for an option that no launcher in the table has. `-` and `_` are equal, and the number of leading dashes does not count
/// for names of two and more letters.
std::string foreign_option(std::string_view name);

}  // namespace anyaccel::launch
