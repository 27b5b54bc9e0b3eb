// Graphs on the CPU: capture by a dispatcher key, replay by calling the recorded kernels again.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::backends::cpu {

/// A new, empty graph of the CPU.
///
/// Capture runs each op once, as usual, and records it with its tensors; autograd records below
/// itself, so that a backward pass and an in-place optimizer are part of the graph. Replay calls
/// the same kernels on the same memory and gives the same bits as running the code again would.
/// What a user should know:
/// - Inputs are changed by `copy_` between replays. Numbers that are not tensors (a Python or C++
/// scalar, a shape,
///   a branch taken) are those of the capture, and so is a tensor that was made from host values
///   inside it.
/// - Random ops draw from the host generator at each replay: a replay gives what eager code would
/// give then.
/// - An op whose result the host must read (`item()`, `nonzero()`, `equal()`, ...), which copies to
/// another device or
///   works on sparse, quantized or nested tensors is refused with `unsupported` and its name; the
///   capture is then abandoned: later ops of the scope run but are not recorded, and capture_end()
///   reports the refusal again.
/// - Only the capturing thread is recorded, and what autograd runs for it on other threads. Another
/// capture at the
///   same time, on any thread, is refused with `invalid_state`.
/// - Tensors made in the capture belong to the graph until reset() or its end; one that the program
/// still holds lives
///   on. At the end of the capture those that nobody else holds are laid out anew, so that values
///   which are never needed at the same time share memory; during the capture each still has its
///   own.
/// - A pool names the graphs that belong together, as on other devices; graphs do not share memory
/// through it.
/// - Capture costs two to three times an eager step: each fast replay routine is run once beside
/// the op, and taken
///   only when it gives the same bits.
std::shared_ptr<sdk::GraphImpl> make_cpu_graph();

/// True while this thread's ops are recorded.
bool is_cpu_capturing() noexcept;

}  // namespace anyaccel::backends::cpu
