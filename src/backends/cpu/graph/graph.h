// Graphs on the CPU: capture by a dispatcher key, replay by calling the recorded kernels again.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::backends::cpu {

/// A new, empty graph of the CPU.
///
/// Capture runs each op once, as usual, and records it with its tensors. Recording happens below
/// autograd, so that a backward pass and an in-place optimizer are part of the graph. Replay calls
/// the same kernels on the same memory and gives the same bits as running the code again. Users
/// should know:
/// - Inputs are changed by `copy_` between replays. Values that are not tensors (a Python or C++
///   scalar, a shape, the branch taken) keep their values of the capture. So does a tensor that the
///   capture makes from host values.
/// - Random ops draw from the host generator at each replay, as eager code would at that time.
/// - An op whose result the host must read (`item()`, `nonzero()`, `equal()`, ...), which copies to
///   another device, or which works on sparse, quantized or nested tensors throws `unsupported`
///   with its name. The capture is then abandoned: later ops of the scope run but are not recorded,
///   and capture_end() throws the same error again.
/// - Only the capturing thread is recorded, and the work that autograd runs for it on other
///   threads. A second capture at the same time, on any thread, throws `invalid_state`.
/// - Tensors made in the capture belong to the graph until reset() or its destruction; those that
///   the program still holds live longer. During the capture, each tensor has its own memory. At
///   the end of the capture, tensors that only the graph holds are laid out again, so that values
///   that are never needed at the same time share memory.
/// - A pool identifies graphs that belong together, as on other devices. Graphs do not share memory
///   through it.
/// - A capture takes two to three times as long as an eager step, because each fast replay routine
///   runs once next to the op. It is used only if it gives the same bits.
std::shared_ptr<sdk::GraphImpl> make_cpu_graph();

/// True while this thread's ops are recorded.
bool is_cpu_capturing() noexcept;

}  // namespace anyaccel::backends::cpu
