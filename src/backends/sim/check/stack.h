// Call stacks: addresses now, names when a report needs them. No torch.
#pragma once

#include <string>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// The calling thread's, without this function.
Frames capture_stack();

/// "#0 function + 0x1f (library)" for each, from the first frame outside of the simulator on, at most 40. In Python programs the
/// interpreter's own stack comes first when `of_this_thread`.
std::vector<std::string> stack_text(const Frames& frames, bool of_this_thread = true);

}  // namespace anyaccel::backends::sim::checking
