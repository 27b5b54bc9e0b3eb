#include "llm/model/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "anyaccel/ops/training.h"
#include "llm/model/functions.h"

namespace anyaccel::llm {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::silu: return at::silu(x);
    case Activation::gelu: return at::gelu(x, "none");
    case Activation::gelu_tanh: return at::gelu(x, "tanh");
    case Activation::relu: return at::relu(x);
    case Activation::relu2: break;
  }
  return at::relu(x).square();
}

at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation) {
  if (activation == Activation::silu) return swiglu(gate_up);
  if (trains_by_op(gate_up))
    return ops::gated_activation(gate_up,
                                 static_cast<ops::GateActivation>(op_activation(activation)));
  const auto inner = gate_up.size(-1) / 2;
  return activate(gate_up.narrow(-1, 0, inner), activation).mul(gate_up.narrow(-1, inner, inner));
}

std::int64_t op_activation(Activation activation) noexcept {
  switch (activation) {
    case Activation::silu: return 0;
    case Activation::gelu: return 1;
    case Activation::gelu_tanh: return 2;
    case Activation::relu: return 3;
    case Activation::relu2: break;
  }
  return 4;
}

}  // namespace anyaccel::llm
