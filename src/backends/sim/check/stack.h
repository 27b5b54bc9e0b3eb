// Call stacks. Addresses are captured first; names are looked up only when a report needs them. No
// torch.
#pragma once

#include <string>
#include <vector>

#include "backends/sim/check/detector.h"

namespace anyaccel::backends::sim::checking {

/// The calling thread's stack, without this function's frame.
Frames capture_frames();

struct Stack {
  Frames frames;
  std::vector<std::string> interpreter;  ///< Python's stack as text, in Python programs
};

Stack capture_stack();

/// A hash that is equal for the same place in a program. Takes microseconds, whereas looking up
/// names takes milliseconds.
std::size_t place(const Stack& stack);

/// One line per frame: "#0 function + 0x1f (library)". The interpreter's frames come first, then at
/// most 40 native frames, starting with the first one outside the simulator.
std::vector<std::string> stack_text(const Stack& stack);

}  // namespace anyaccel::backends::sim::checking
