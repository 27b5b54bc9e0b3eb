#include "llm/causal/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "anyaccel/ops/training.h"

namespace anyaccel::llm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Number of logits that are computed at a time (64 MiB), but of at least 128 tokens: each chunk
// reads the whole head.
constexpr std::int64_t logits_at_once = 16 << 20;
constexpr std::int64_t least_tokens = 128;

/// Arguments that get no gradients.
struct HeadLoss {
  Scales scales;
  at::Tensor targets;
  double softcap, divisor;
  bool for_hidden, for_head;  ///< the gradients that are needed
};

/// Loss of a chunk of tokens, and the gradient of their logits.
struct Chunk {
  at::Tensor loss;      ///< 0-d, sum over the tokens
  at::Tensor gradient;  ///< [tokens, vocab] float32; undefined unless needed
};

/// Computes the loss of a chunk. `share`: factor of each token's loss, 0-d. Overwrites `logits`,
/// which are float32.
Chunk chunk_loss(at::Tensor logits, const at::Tensor& targets, const at::Tensor& share,
                 double softcap, bool gradient) {
  at::Tensor bent;  // tanh of the scaled logits
  if (softcap > 0) {
    bent = logits.div_(softcap).tanh_();
    logits = bent.mul(softcap);
  }
  const at::Tensor valid = targets.ne(ignored_label).to(c10::kFloat).mul_(share);
  const at::Tensor picked = targets.clamp_min(0).unsqueeze(1);
  const at::Tensor log_sum = at::logsumexp(logits, {1}, /*keepdim=*/true);
  const at::Tensor losses = log_sum.sub(logits.gather(1, picked)).squeeze(1).mul_(valid);
  if (!gradient) return {losses.sum(), {}};
  at::Tensor shares = logits.sub_(log_sum).exp_();
  shares.scatter_add_(1, picked, at::full(picked.sizes(), -1.0, shares.options()));
  shares.mul_(valid.unsqueeze(1));
  if (bent.defined()) shares.mul_(bent.square_().neg_().add_(1));
  return {losses.sum(), shares};
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& head, const HeadLoss& info) {
    const std::int64_t tokens = hidden.size(0);
    const auto options = hidden.options().dtype(c10::kFloat).requires_grad(false);
    const at::Tensor divisor = info.divisor > 0
                                   ? at::full({}, info.divisor, options)
                                   : info.targets.ne(ignored_label).sum().to(c10::kFloat);
    const at::Tensor share = divisor.reciprocal();
    at::Tensor for_hidden, for_head;
    if (info.for_hidden) for_hidden = at::empty_like(hidden);
    // Sum in float32, to limit the rounding error of the chunks' additions.
    if (info.for_head) for_head = at::zeros(head.sizes(), options);
    const bool gradient = info.for_hidden || info.for_head;
    // The mean of no losses is undefined (NaN), as in torch.
    at::Tensor loss = tokens > 0 ? at::zeros({}, options) : share.mul(0.0);
    const std::int64_t step = std::max(least_tokens, logits_at_once / head.size(0));
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t count = std::min(step, tokens - begin);
      const at::Tensor rows = hidden.narrow(0, begin, count);
      const at::Tensor logits = linear(rows, head, info.scales, {});
      const Chunk chunk = chunk_loss(logits.to(c10::kFloat), info.targets.narrow(0, begin, count),
                                     share, info.softcap, gradient);
      loss.add_(chunk.loss);
      if (!gradient) continue;
      const at::Tensor of_logits = chunk.gradient.to(hidden.scalar_type());
      if (info.for_hidden)
        for_hidden.narrow(0, begin, count).copy_(linear_gradient(of_logits, head, info.scales));
      if (!info.for_head) continue;
      if (head.scalar_type() == c10::kFloat && hidden.scalar_type() == c10::kFloat)
        for_head.addmm_(of_logits.t(), rows);
      else
        for_head.add_(at::mm(of_logits.t(), rows));
    }
    if (info.for_head) for_head = for_head.to(head.scalar_type());
    context->save_for_backward({for_hidden, for_head});
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    // Reading a value in host memory does not wait, and usually saves two multiplications.
    const bool one = gradients[0].is_cpu() && gradients[0].item<float>() == 1.0F;
    const auto scaled = [&](const at::Tensor& in) {
      return in.defined() && !one ? in.mul(gradients[0]) : in;
    };
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double divisor) {
  const at::Tensor rows = logits.reshape({-1, logits.size(-1)}).to(c10::kFloat);
  const auto reduction = divisor > 0 ? at::Reduction::Sum : at::Reduction::Mean;
  const at::Tensor loss = at::cross_entropy_loss(rows, targets, {}, reduction, ignored_label);
  return divisor > 0 ? loss.div(divisor) : loss;
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& head,
                                const Scales& scales, const at::Tensor& targets, double softcap,
                                double divisor) {
  if (!scales.scales.defined() && head.scalar_type() == hidden.scalar_type() && targets.is_cpu() &&
      ops::has_training_kernels(hidden))
    return ops::linear_cross_entropy(
        hidden, head, targets,
        {.ignore_index = ignored_label, .divisor = divisor, .softcap = softcap});
  const bool gradient = c10::GradMode::is_enabled();
  return LinearCrossEntropy::apply(
      hidden, head,
      HeadLoss{scales, targets, softcap, divisor, gradient && hidden.requires_grad(),
               gradient && head.requires_grad()});
}

}  // namespace anyaccel::llm
