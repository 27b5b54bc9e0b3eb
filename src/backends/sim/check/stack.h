// Call stacks: addresses now, names when a report needs them. No torch.
#pragma once

#include <string>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// The calling thread's, without this function.
Frames capture_frames();

struct Stack {
  Frames frames;
  std::vector<std::string> interpreter;  ///< in Python programs: Python's own, as text
};

Stack capture_stack();

/// The same for the same place in a program. Takes microseconds; names take milliseconds.
std::size_t place(const Stack& stack);

/// "#0 function + 0x1f (library)" for each, from the first frame outside of the simulator on, at
/// most 40; the interpreter's first.
std::vector<std::string> stack_text(const Stack& stack);

}  // namespace anyaccel::backends::sim::checking
