// Graphs on the CPU: ops are captured through a dispatch key, and replayed by calling the recorded
// kernels again.
#pragma once

#include <memory>

#include "anyaccel/sdk/backend.h"

namespace anyaccel::backends::cpu {

/// Creates an empty CPU graph.
///
/// Capture runs each op once, as usual, and records it with its tensors. Recording happens below
/// autograd, so that a backward pass and an in-place optimizer are part of the graph. Replay calls
/// the same kernels on the same memory, so the results are bitwise equal to those of running the
/// code again. Users should know:
/// - To change an input, `copy_` into it between replays. Everything that is not a tensor (a Python
///   or C++ scalar, a shape, the branch taken) is fixed at capture. So is a tensor that the
///   captured code creates from host values.
/// - Random ops draw from the host generator at each replay, as eager code would at that time.
/// - An op throws `unsupported` with its name if the host must read its result (`item()`,
///   `nonzero()`, `equal()`, ...), if it copies to another device, or if it works on sparse,
///   quantized or nested tensors. The capture is then abandoned: later ops in the scope run but are
///   not recorded, and capture_end() throws the same error again.
/// - The graph records the ops of the capturing thread, and the ops that autograd runs for it on
///   other threads. Starting a second capture at the same time, on any thread, throws
///   `invalid_state`.
/// - Tensors created during the capture belong to the graph until reset() or its destruction.
///   Tensors that the program still holds live longer. During the capture, each tensor has its own
///   memory. At the end of the capture, tensors that only the graph holds are moved, so that
///   tensors with disjoint lifetimes share memory.
/// - A pool identifies graphs that belong together, as on other devices. Graphs do not share memory
///   through it.
/// - A capture takes two to three times as long as an eager step, because it runs each fast replay
///   routine once in addition to the op. The routine is used only if its results are bitwise equal.
std::shared_ptr<sdk::GraphImpl> make_cpu_graph();

/// True while this thread's ops are being recorded.
bool is_cpu_capturing() noexcept;

}  // namespace anyaccel::backends::cpu
