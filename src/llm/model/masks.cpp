#include "llm/model/masks.h"

#include <ATen/ops/arange.h>

namespace anyaccel::llm {

namespace {

at::Tensor causal_mask(std::int64_t past, std::int64_t time, std::int64_t window,
                       c10::Device device) {
  const auto options = at::TensorOptions().dtype(c10::kLong).device(device);
  const at::Tensor rows = at::arange(past, past + time, options).unsqueeze(1);
  const at::Tensor columns = at::arange(past + time, options).unsqueeze(0);
  const at::Tensor mask = columns.le(rows);
  return window > 0 ? mask.logical_and(columns.gt(rows.sub(window))) : mask;
}

}  // namespace

std::optional<at::Tensor> Masks::of(std::int64_t window, bool always) {
  const bool cuts = window > 0 && past_ + time_ > window;
  if (time_ == 1 || (past_ == 0 && !cuts && !always)) return std::nullopt;
  at::Tensor& mask = made_[cuts ? window : 0];
  if (!mask.defined()) mask = causal_mask(past_, time_, cuts ? window : 0, device_);
  return mask;
}

}  // namespace anyaccel::llm
