#include "llm/embed/pooling.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <cmath>
#include <limits>

namespace anyaccel::llm {

namespace {

at::Tensor one_kind(const at::Tensor& tokens, const std::optional<at::Tensor>& counted,
                    Pooling kind) {
  if (kind == Pooling::cls) return tokens.select(1, 0);
  if (kind == Pooling::max) {
    return counted ? tokens
                         .masked_fill(counted->logical_not().unsqueeze(2),
                                      -std::numeric_limits<double>::infinity())
                         .amax(1)
                   : tokens.amax(1);
  }
  const bool root = kind == Pooling::mean_sqrt_len;
  if (!counted) {
    const auto time = static_cast<double>(tokens.size(1));
    return tokens.sum(1).div_(root ? std::sqrt(time) : time);
  }
  const at::Tensor weight = counted->unsqueeze(2).to(c10::kFloat);
  const at::Tensor number = weight.sum(1);
  return tokens.mul(weight).sum(1).div_(root ? number.sqrt() : number);
}

}  // namespace

at::Tensor pool(const at::Tensor& tokens, const std::optional<at::Tensor>& counted,
                const std::vector<Pooling>& kinds) {
  const at::Tensor wide = tokens.to(c10::kFloat);
  std::vector<at::Tensor> parts;
  for (const Pooling kind : kinds) parts.push_back(one_kind(wide, counted, kind));
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

at::Tensor normalize_rows(const at::Tensor& rows) {
  return rows.div(
      at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}, /*keepdim=*/true).clamp_min(1e-12));
}

}  // namespace anyaccel::llm
