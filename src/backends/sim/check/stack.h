// Call stacks. Addresses are captured first; names are looked up only when a report needs them. No
// torch.
#pragma once

#include <string>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// The calling thread's stack, without this function.
Frames capture_frames();

struct Stack {
  Frames frames;
  std::vector<std::string> interpreter;  ///< in Python programs: Python's stack, as text
};

Stack capture_stack();

/// A hash that is the same for the same place in a program. Takes microseconds, whereas names take
/// milliseconds.
std::size_t place(const Stack& stack);

/// One line per frame: "#0 function + 0x1f (library)". The interpreter's frames come first, then at
/// most 40 frames, from the first one outside of the simulator on.
std::vector<std::string> stack_text(const Stack& stack);

}  // namespace anyaccel::backends::sim::checking
