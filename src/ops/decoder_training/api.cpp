#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <cstdlib>

#include "anyaccel/ops/call.h"
#include "anyaccel/ops/training.h"

namespace anyaccel::ops {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr const char* builder = "DecoderTrainingBuilder";
using Norm = Tensor(const Tensor&, const Tensor&, double, bool);
using AddNorm = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double,
                                           bool);
using Gated = Tensor(const Tensor&, std::int64_t);
using Rotary = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                  std::int64_t, std::int64_t);
using Attention = Tensor(const Tensor&, const Tensor&, const Tensor&, double, std::int64_t,
                         const OptionalTensor&);
using Linear = Tensor(const Tensor&, const Tensor&, const OptionalTensor&);
using GatedLinear = Tensor(const Tensor&, std::int64_t, const Tensor&, const OptionalTensor&);
using Loss = Tensor(const Tensor&, const Tensor&, const Tensor&, std::int64_t, double, double);

OptionalTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

at::ScalarType real_type(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

/// Returns whether ANYACCEL_TRAINING is `plain`. Throws `invalid_argument` unless it is `plain`,
/// `auto` or empty.
bool is_plain() {
  const char* const value = std::getenv("ANYACCEL_TRAINING");
  const std::string name = value && *value ? value : "auto";
  if (name != "auto" && name != "plain")
    throw Error(ErrorCode::invalid_argument, "ANYACCEL_TRAINING",
                {.what = "unknown value", .got = name, .want = "auto or plain"});
  return name == "plain";
}

bool loads() {
  if (is_plain()) return false;
  try {
    if (!has_op(builder)) return false;
    load_op<Norm>(builder, "training_rms_norm");
    return true;
  } catch (const Error& error) {
    TORCH_WARN("training is slower without the op decoder_training: ", error.what());
    return false;
  }
}

Tensor plain_norm(const Tensor& x, const Tensor& weight, double eps, bool plus_one) {
  const Tensor wide = x.to(real_type(x));
  const Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add(eps).rsqrt();
  const Tensor factor = weight.to(wide.scalar_type());
  return wide.mul(scale).mul(plus_one ? factor.add(1) : factor).to(x.scalar_type());
}

Tensor plain_rotation(const Tensor& heads, const Tensor& cos, const Tensor& sin) {
  const std::int64_t half = cos.size(-1), rest = heads.size(-1) - 2 * half;
  const Tensor wide = heads.to(cos.scalar_type());
  const Tensor first = wide.narrow(-1, 0, half), second = wide.narrow(-1, half, half);
  return at::cat({first.mul(cos).sub(second.mul(sin)), second.mul(cos).add(first.mul(sin)),
                  wide.narrow(-1, 2 * half, rest)},
                 -1)
      .to(heads.scalar_type());
}

/// Visible keys of each query, [time, time]. Undefined if the causal mask is enough.
OptionalTensor visible(const Tensor& q, const CausalAttentionOptions& options) {
  if (options.window <= 0 && !options.starts.defined()) return std::nullopt;
  const Tensor position = at::arange(q.size(2), q.options().dtype(at::kLong));
  const Tensor query = position.unsqueeze(1), key = position.unsqueeze(0);
  Tensor seen = key.le(query);
  if (options.window > 0) seen = seen.logical_and(key.gt(query.sub(options.window)));
  if (options.starts.defined()) {
    const Tensor sequence = at::searchsorted(options.starts.to(q.device()), position,
                                             /*out_int32=*/false, /*right=*/true);
    seen = seen.logical_and(sequence.unsqueeze(1).eq(sequence.unsqueeze(0)));
  }
  return seen;
}

Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const CausalAttentionOptions& options) {
  const std::int64_t groups = q.size(1) / k.size(1);
  const auto repeated = [&](const Tensor& shared) {
    return groups == 1 ? shared : shared.repeat_interleave(groups, 1);
  };
  const OptionalTensor mask = visible(q, options);
  return at::scaled_dot_product_attention(q, repeated(k), repeated(v), mask, 0.0,
                                          /*is_causal=*/!mask, options.scale);
}

Tensor plain_loss(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                  const LinearCrossEntropyOptions& options) {
  Tensor logits = at::linear(hidden.reshape({-1, hidden.size(-1)}), weight).to(real_type(hidden));
  if (options.softcap > 0) logits = logits.div(options.softcap).tanh().mul(options.softcap);
  const Tensor flat = labels.reshape({-1}).to(logits.device());
  const Tensor sum =
      at::cross_entropy_loss(logits, flat, {}, at::Reduction::Sum, options.ignore_index);
  return options.divisor > 0 ? sum.div(options.divisor)
                             : sum.div(flat.ne(options.ignore_index).sum().to(sum.scalar_type()));
}

}  // namespace

bool has_training_kernels(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided) return false;
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kBFloat16:
    case at::kHalf:
    case at::kDouble: break;
    default: return false;
  }
  static const bool can = loads();
  return can;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, bool plus_one) {
  if (!has_training_kernels(x) || !same_kind(x, weight))
    return plain_norm(x, weight, eps, plus_one);
  static const auto op = load_op<Norm>(builder, "training_rms_norm");
  return calling("rms_norm", [&] { return op.call(x, weight, eps, plus_one); });
}

std::pair<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual,
                                       const Tensor& weight, double eps, bool plus_one) {
  if (!has_training_kernels(x) || !same_kind(x, weight) || !same_kind(x, residual)) {
    const Tensor sum = x.add(residual);
    return {plain_norm(sum, weight, eps, plus_one), sum};
  }
  static const auto op = load_op<AddNorm>(builder, "training_add_rms_norm");
  return calling("add_rms_norm", [&]() -> std::pair<Tensor, Tensor> {
    auto [out, sum] = op.call(x, residual, weight, eps, plus_one);
    return {out, sum};
  });
}

Tensor gated_activation(const Tensor& gate_up, GateActivation activation) {
  if (has_training_kernels(gate_up)) {
    static const auto op = load_op<Gated>(builder, "training_gated_activation");
    return calling("gated_activation",
                   [&] { return op.call(gate_up, static_cast<std::int64_t>(activation)); });
  }
  const std::int64_t inner = gate_up.size(-1) / 2;
  const Tensor gate = gate_up.narrow(-1, 0, inner), up = gate_up.narrow(-1, inner, inner);
  switch (activation) {
    case GateActivation::silu: return at::silu(gate).mul(up);
    case GateActivation::gelu: return at::gelu(gate, "none").mul(up);
    case GateActivation::gelu_tanh: return at::gelu(gate, "tanh").mul(up);
    case GateActivation::relu: return at::relu(gate).mul(up);
    case GateActivation::relu2: break;
  }
  return at::relu(gate).square().mul(up);
}

std::tuple<Tensor, Tensor, Tensor> rotary_split(const Tensor& qkv, const Tensor& cos,
                                                const Tensor& sin, std::int64_t heads,
                                                std::int64_t kv_heads) {
  if (has_training_kernels(qkv)) {
    static const auto op = load_op<Rotary>(builder, "training_rotary_split");
    return calling("rotary_split", [&] { return op.call(qkv, cos, sin, heads, kv_heads); });
  }
  const Tensor all = qkv.view({qkv.size(0), qkv.size(1), heads + 2 * kv_heads, -1}).transpose(1, 2);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return all.narrow(1, first, count);
  };
  const auto table = [](const Tensor& rows) { return rows.dim() == 3 ? rows.unsqueeze(1) : rows; };
  return {plain_rotation(part(0, heads), table(cos), table(sin)),
          plain_rotation(part(heads, kv_heads), table(cos), table(sin)),
          part(heads + kv_heads, kv_heads)};
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const CausalAttentionOptions& options) {
  if (!has_training_kernels(q) || q.size(-1) % 16) return plain_attention(q, k, v, options);
  static const auto op = load_op<Attention>(builder, "training_attention");
  const double scale =
      options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return calling("causal_attention",
                 [&] { return op.call(q, k, v, scale, options.window, maybe(options.starts)); });
}

Tensor training_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!has_training_kernels(x) || !same_kind(x, weight)) return at::linear(x, weight, maybe(bias));
  static const auto op = load_op<Linear>(builder, "training_linear");
  return calling("training_linear", [&] { return op.call(x, weight, maybe(bias)); });
}

Tensor gated_linear(const Tensor& gate_up, GateActivation activation, const Tensor& weight,
                    const Tensor& bias) {
  if (!has_training_kernels(gate_up) || !same_kind(gate_up, weight))
    return training_linear(gated_activation(gate_up, activation), weight, bias);
  static const auto op = load_op<GatedLinear>(builder, "training_gated_linear");
  return calling("gated_linear", [&] {
    return op.call(gate_up, static_cast<std::int64_t>(activation), weight, maybe(bias));
  });
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LinearCrossEntropyOptions& options) {
  if (!has_training_kernels(hidden) || !same_kind(hidden, weight))
    return plain_loss(hidden, weight, labels, options);
  static const auto op = load_op<Loss>(builder, "training_linear_cross_entropy");
  return calling("linear_cross_entropy", [&] {
    return op.call(hidden, weight, labels, options.ignore_index, options.divisor, options.softcap);
  });
}

}  // namespace anyaccel::ops
