// Arguments of the bias ops and their validation.
#pragma once

#include "ops/shared/empty.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct BiasArguments {
  const Tensor& activation;
  const Tensor& bias;
  const OptionalTensor& other;
  const OptionalTensor& other_bias;
};

inline bool is_given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

/// Returns the index of the channel dimension. Images are [batch, channels, height, width]; other
/// tensors have their channels last.
inline std::int64_t channel_dim(const Tensor& activation) {
  return activation.dim() == 4 ? 1 : activation.dim() - 1;
}

/// Returns the memory format in which channels are contiguous.
inline at::MemoryFormat channels_last(const Tensor& activation) {
  return activation.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

/// Performs the checks that also work with symbolic shapes.
inline void check_bias_arguments(const BiasArguments& g) {
  constexpr const char* where = "nhwc_bias_add";
  if (g.activation.dim() < 1)
    fail_argument(where, "the activation has no channels", words(g.activation),
                  "1 dimension or more");
  if (g.activation.scalar_type() != at::kDouble) element_of(where, "the activation", g.activation);
  const auto channels = g.activation.sym_size(channel_dim(g.activation));
  const auto check = [&](const char* name, const Tensor& tensor, bool fits) {
    if (!fits || tensor.scalar_type() != g.activation.scalar_type() ||
        tensor.device() != g.activation.device())
      fail_argument(where, std::string(name) + " has the wrong shape, dtype or device",
                    words(tensor), words(g.activation));
  };
  const auto is_bias = [&](const Tensor& tensor) {
    return tensor.dim() == 1 && tensor.sym_size(0) == channels;
  };
  check("the bias", g.bias, is_bias(g.bias));
  if (is_given(g.other))
    check("the other activation", *g.other, g.other->sym_sizes() == g.activation.sym_sizes());
  if (is_given(g.other_bias))
    check("the other bias", *g.other_bias, is_given(g.other) && is_bias(*g.other_bias));
}

/// The tensors in the memory format that the kernels require.
struct BiasTensors {
  Tensor activation, bias, other, other_bias, out;

  explicit BiasTensors(const BiasArguments& g)
      : activation(g.activation.contiguous(channels_last(g.activation))),
        bias(g.bias.contiguous()) {
    if (is_given(g.other)) other = g.other->contiguous(channels_last(g.activation));
    if (is_given(g.other_bias)) other_bias = g.other_bias->contiguous();
    out = empty(activation.sizes(), activation.options().memory_format(channels_last(activation)));
  }

  std::int64_t channels() const { return bias.size(0); }
  const void* of(const Tensor& tensor) const {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  }
};

}  // namespace anyaccel::ops
