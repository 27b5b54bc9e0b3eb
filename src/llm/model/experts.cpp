#include "llm/model/experts.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

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
  const at::Tensor inputs = rows.index_select(0, tokens);
  const at::Tensor weights =
      shares.reshape({-1}).index_select(0, order.to(x.device())).unsqueeze(1);
  at::Tensor out = at::zeros_like(rows);
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < config.num_experts; ++expert) {
    const std::int64_t count = counts.const_data_ptr<std::int64_t>()[expert];
    if (count == 0) continue;
    const at::Tensor gate_up =
        at::linear(inputs.narrow(0, begin, count), layer.expert_gate_up.select(0, expert));
    const at::Tensor inner = activate_gate(gate_up, config.activation);
    const at::Tensor result =
        at::linear(inner, layer.expert_down.select(0, expert)).mul(weights.narrow(0, begin, count));
    out = out.index_add(0, tokens.narrow(0, begin, count), result.to(out.scalar_type()));
    begin += count;
  }
  return out.view(x.sizes());
}

}  // namespace anyaccel::llm
