// Call stacks. Addresses are captured first; names are looked up only when a report needs them.
// Does not use torch.
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

/// The innermost line of the stack that belongs to the program: in Python, the first one outside of
/// installed packages and the standard library; otherwise the first function outside of torch and
/// AnyAccel. Empty if no line belongs to the program. Looking up a native function takes
/// milliseconds.
std::string caller(const Stack& stack);

/// Returns a hash that identifies the stack's code location. Computing it takes microseconds;
/// looking up symbol names takes milliseconds.
std::size_t place(const Stack& stack);

/// One line per frame: "#0 function + 0x1f (library)". The interpreter's frames come first, then at
/// most 40 native frames, starting with the first one outside the simulator and ending before the
/// first one of the interpreter.
std::vector<std::string> stack_text(const Stack& stack);

}  // namespace anyaccel::backends::sim::checking
