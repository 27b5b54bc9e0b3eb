// LSTM and GRU cells. torch calls these ops on every device except the CPU, where it composes the
// cells from simpler ops.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "backends/sim/kernels.h"
#include "backends/sim/register.h"

namespace anyaccel::backends::sim {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates.add(*bias) : gates;
}

at::Tensor given_or_zeros(const OptionalTensor& gradient, const at::Tensor& like) {
  return gradient && gradient->defined() ? *gradient : at::zeros_like(like);
}

at::Tensor bias_gradient(const at::Tensor& gates, bool has_bias) {
  return has_bias ? gates.sum(0) : at::Tensor();
}

/// Backward functions that compute the gradient from the forward result.
at::Tensor through_sigmoid(const at::Tensor& gradient, const at::Tensor& result) {
  return gradient.mul(result).mul(result.neg().add(1));
}
at::Tensor through_tanh(const at::Tensor& gradient, const at::Tensor& result) {
  return gradient.mul(result.square().neg().add(1));
}

/// Gates: [batch, 4 * hidden] in the order input, forget, cell, output. Returns h, c, and the gates
/// for the backward pass.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates,
                                                         const at::Tensor& hidden_gates,
                                                         const at::Tensor& c,
                                                         const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const auto gates =
      with_bias(input_gates, input_bias).add(with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const auto input = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
             output = gates[3].sigmoid();
  const auto next = forget.mul(c).add(input.mul(cell));
  return {output.mul(next.tanh()), next, at::cat({input, forget, cell, output}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const OptionalTensor& grad_h, const OptionalTensor& grad_c, const at::Tensor& c,
    const at::Tensor& next, const at::Tensor& workspace, bool has_bias) {
  if (!(grad_h && grad_h->defined()) && !(grad_c && grad_c->defined())) return {};
  const auto gates = workspace.chunk(4, 1);
  const auto &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  const auto gradient = given_or_zeros(grad_h, next), tanh_next = next.tanh();
  const auto to_next =
      given_or_zeros(grad_c, next).add(through_tanh(gradient.mul(output), tanh_next));
  const auto to_gates = at::cat(
      {through_sigmoid(to_next.mul(cell), input), through_sigmoid(to_next.mul(c), forget),
       through_tanh(to_next.mul(input), cell), through_sigmoid(gradient.mul(tanh_next), output)},
      1);
  return {to_gates, to_next.mul(forget), bias_gradient(to_gates, has_bias)};
}

/// Gates: [batch, 3 * hidden] in the order reset, update, new. Returns the next h and, as
/// one tensor for the backward pass, the gates, the previous h and the hidden part of the new gate.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates, const at::Tensor& h,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = from_input[0].add(from_hidden[0]).sigmoid(),
             update = from_input[1].add(from_hidden[1]).sigmoid();
  const auto candidate = from_input[2].add(reset.mul(from_hidden[2])).tanh();
  return {candidate.add(update.mul(h.sub(candidate))),
          at::cat({reset, update, candidate, h, from_hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& gradient, const at::Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto &reset = saved[0], &update = saved[1], &candidate = saved[2], &h = saved[3],
             &from_hidden = saved[4];
  const auto to_update = through_sigmoid(gradient.mul(h.sub(candidate)), update);
  const auto to_candidate = through_tanh(gradient.mul(update.neg().add(1)), candidate);
  const auto to_reset = through_sigmoid(to_candidate.mul(from_hidden), reset);
  const auto to_input = at::cat({to_reset, to_update, to_candidate}, 1);
  const auto to_hidden = at::cat({to_reset, to_update, to_candidate.mul(reset)}, 1);
  return {to_input, to_hidden, gradient.mul(update), bias_gradient(to_input, has_bias),
          bias_gradient(to_hidden, has_bias)};
}

}  // namespace

void register_rnn_kernels() {
  auto& library = device_library();
  library.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  library.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  library.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  library.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace anyaccel::backends::sim
