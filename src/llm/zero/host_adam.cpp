#include "llm/zero/host_adam.h"

#include <algorithm>

namespace anyaccel::llm {

namespace {

/// Elements per piece. Its four float32 tensors fit into a CPU's second-level cache.
constexpr std::int64_t kPiece = std::int64_t{1} << 16;

}  // namespace

HostAdam::HostAdam(const AdamWOptions& o)
    : adam_({.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps}) {}

void HostAdam::update(const HostSlice& slice, const at::Tensor& out, double weight_decay,
                      const UpdateInput& input) {
  adam_.options().lr = input.lr;
  adam_.options().weight_decay = weight_decay;
  const bool here = out.is_cpu();
  const bool same = here && out.const_data_ptr() == slice.weight.const_data_ptr();
  for (std::int64_t begin = 0; begin < slice.weight.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, slice.weight.numel() - begin);
    const auto piece = [&](const at::Tensor& tensor) { return tensor.narrow(0, begin, count); };
    const at::Tensor weight = piece(slice.weight), gradient = piece(slice.gradient);
    if (input.scale < 1) gradient.mul_(input.scale);
    adam_.set_steps(input.step - 1);
    adam_.step({weight}, {gradient}, {piece(slice.exp_avg)}, {piece(slice.exp_avg_sq)});
    if (here && !same) piece(out).copy_(weight);
  }
  if (!here) out.copy_(slice.weight, /*non_blocking=*/true);
}

}  // namespace anyaccel::llm
