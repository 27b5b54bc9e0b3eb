#include "llm/model/experts.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "llm/model/activation.h"

namespace anyaccel::llm {

at::Tensor run_experts(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor probabilities = at::softmax(at::linear(rows, layer.router), -1, c10::kFloat);
  auto [shares, chosen] = at::topk(probabilities, config.experts_per_token, -1);
  if (config.normalize_experts) shares = shares.div(shares.sum(-1, /*keepdim=*/true));

  // Sort (token, expert) pairs by expert, so that each expert needs only one matrix product over
  // adjacent rows.
  const at::Tensor pairs = chosen.to(c10::Device(c10::kCPU)).reshape({-1});
  const at::Tensor counts = at::bincount(pairs, {}, config.num_experts);
  const at::Tensor order = at::argsort(pairs, /*stable=*/true, 0, false);
  const at::Tensor tokens = order.div(config.experts_per_token, "floor").to(x.device());
  const at::Tensor weights =
      shares.reshape({-1}).index_select(0, order.to(x.device())).unsqueeze(1);
  const auto* sizes = counts.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> split(sizes, sizes + config.num_experts);
  // Split and unbind once: the backward pass of each narrow() or select() allocates a tensor for
  // all experts.
  const auto inputs = rows.index_select(0, tokens).split_with_sizes(split);
  const auto factors = weights.split_with_sizes(split);
  const auto targets = tokens.split_with_sizes(split);
  const auto gate_ups = layer.expert_gate_up.unbind(0), downs = layer.expert_down.unbind(0);
  at::Tensor out = at::zeros_like(rows);
  for (std::size_t expert = 0; expert < split.size(); ++expert) {
    if (split[expert] == 0) continue;
    const at::Tensor inner =
        activate_gate(at::linear(inputs[expert], gate_ups[expert]), config.activation);
    const at::Tensor result = at::linear(inner, downs[expert]).mul(factors[expert]);
    out = out.index_add(0, targets[expert], result.to(out.scalar_type()));
  }
  return out.view(x.sizes());
}

}  // namespace anyaccel::llm
