// Activation functions of feed-forward layers, computed by torch ops, and the numbers that identify
// them in our inference ops.
#pragma once

#include <ATen/core/Tensor.h>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

at::Tensor activate(const at::Tensor& x, Activation activation);

/// Returns activation(gate) * up, [..., inner], for an input [..., 2 * inner] with the gate first.
at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation);

/// Returns the activation's number for `inference_decode` and `inference_encode`.
std::int64_t op_activation(Activation activation) noexcept;

}  // namespace anyaccel::llm
