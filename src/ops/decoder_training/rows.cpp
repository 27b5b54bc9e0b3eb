// RMS norm, gated activations and rotary embeddings: checks, memory and threads.
#include <algorithm>
#include <vector>

#include "kernels/training/decoder_rows.h"
#include "ops/decoder_training/passes.h"
#include "ops/shared/empty.h"
#include "ops/shared/row_tasks.h"

namespace anyaccel::ops {
namespace {

constexpr const char* norm_name = "training_rms_norm";
constexpr const char* gated_name = "training_gated_activation";

std::int64_t rows_of(const Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return columns ? x.numel() / columns : 0;
}

Tensor empty_like_rows(const Tensor& like) { return empty(like.sizes(), like.options()); }

void check_norm(const Tensor& x, const Tensor& weight) {
  check_on_host(norm_name, "x", x);
  check_like(norm_name, "weight", weight, x);
  if (x.dim() == 0 || weight.dim() != 1 || weight.size(0) != x.size(-1))
    fail_argument(norm_name, "the shape of weight does not match x",
                  words(weight) + " for " + words(x),
                  "one weight per element of the last dimension");
}

/// Row sums of each task, which are added in a fixed order.
template <typename Real>
class TaskSums {
 public:
  TaskSums(std::int64_t rows, std::int64_t columns)
      : columns_(columns),
        tasks_((rows + rows_of_task(rows, columns) - 1) / rows_of_task(rows, columns)),
        sums_(static_cast<std::size_t>(tasks_ * columns), Real{0}) {}
  Real* of(std::int64_t task) { return sums_.data() + task * columns_; }
  Tensor total(const at::TensorOptions& options) const {
    Tensor out = empty({columns_}, options.dtype(c10::CppTypeToScalarType<Real>::value));
    Real* const to = out.template mutable_data_ptr<Real>();
    std::fill(to, to + columns_, Real{0});
    for (std::int64_t task = 0; task < tasks_; ++task)
      for (std::int64_t i = 0; i < columns_; ++i)
        to[i] += sums_[static_cast<std::size_t>(task * columns_ + i)];
    return out;
  }

 private:
  std::int64_t columns_, tasks_;
  std::vector<Real> sums_;
};

Gate gate_of(std::int64_t activation) {
  if (activation < 0 || activation > 4)
    fail_argument(gated_name, "unknown activation", std::to_string(activation),
                  "0 (silu), 1 (gelu), 2 (gelu with tanh), 3 (relu) or 4 (squared relu)");
  return static_cast<Gate>(activation);
}

void check_gate_up(const Tensor& gate_up) {
  check_on_host(gated_name, "gate_up", gate_up);
  if (gate_up.dim() == 0 || gate_up.size(-1) % 2)
    fail_argument(gated_name, "the last dimension cannot be halved", words(gate_up),
                  "[..., 2 * inner]");
}

constexpr const char* rotary_name = "training_rotary_split";

/// [batch, heads, time, dim] as heads for the kernel. The last dimension must be contiguous.
template <typename S>
HeadRows<S> heads_of(const Tensor& tensor) {
  return {const_cast<S*>(read<S>(tensor)), tensor.stride(0), tensor.stride(2), tensor.stride(1),
          tensor.size(1)};
}

Tensor with_dense_rows(const Tensor& tensor) {
  return tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

struct RotarySizes {
  std::int64_t batch, time, heads, kv_heads, dim, half;
};

void check_tables(const Tensor& like, const Tensor& cos, const Tensor& sin, const RotarySizes& n) {
  const auto fits = [&](const Tensor& table) {
    return table.scalar_type() == real_type(like.scalar_type()) && table.sizes() == cos.sizes() &&
           2 * n.half <= n.dim &&
           ((table.dim() == 2 && table.size(0) == n.time) ||
            (table.dim() == 3 && table.size(0) == n.batch && table.size(1) == n.time));
  };
  for (const Tensor* table : {&cos, &sin}) {
    check_dense_on(rotary_name, "a table", *table, like);
    if (!fits(*table))
      fail_argument(rotary_name, "the tables do not match qkv",
                    words(*table) + " for " + words(like),
                    "float32 (float64 for float64) of size [time, half] or [batch, time, half], "
                    "with half <= head_dim / 2");
  }
}

template <typename S>
RotaryRows<S> rotary_rows(const RotarySizes& n, const Tensor& cos, const Tensor& sin,
                          const Tensor& fused, const Tensor& q, const Tensor& k, const Tensor& v) {
  using Real = typename RealOf<S>::type;
  return {n.time,
          n.dim,
          n.half,
          cos.dim() == 3 ? n.batch * n.time : n.time,
          read<Real>(cos),
          read<Real>(sin),
          const_cast<S*>(read<S>(fused)),
          heads_of<S>(q),
          heads_of<S>(k),
          heads_of<S>(v)};
}

}  // namespace

Three rms_norm_forward(const Tensor& x_in, const OptionalTensor& residual, const Tensor& weight_in,
                       double eps, bool plus_one) {
  check_norm(x_in, weight_in);
  if (is_given(residual)) {
    check_like(norm_name, "residual", *residual, x_in);
    if (residual->sizes() != x_in.sizes())
      fail_argument(norm_name, "the shape of residual differs from x", words(*residual),
                    words(x_in));
  }
  const Tensor x = x_in.contiguous(), weight = weight_in.contiguous(),
               more = is_given(residual) ? residual->contiguous() : Tensor();
  const std::int64_t rows = rows_of(x), columns = x.size(-1);
  Tensor out = empty_like_rows(x),
         sum = more.defined() ? empty_like_rows(x) : empty({0}, x.options()),
         rstd = empty({rows}, x.options().dtype(real_type(x.scalar_type())));
  const Isa isa = best_isa();
  for_element(norm_name, x, [&](auto element) {
    using S = decltype(element);
    using Real = typename RealOf<S>::type;
    const RmsNorm<S> pass{columns,
                          read<S>(x),
                          read<S>(more),
                          write<S>(sum),
                          read<S>(weight),
                          write<S>(out),
                          write<Real>(rstd),
                          static_cast<Real>(eps),
                          plus_one ? Real{1} : Real{0}};
    parallel_rows(rows, columns,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    rms_norm_rows(isa, pass, begin, end);
                  });
  });
  return {out, sum, rstd};
}

Two rms_norm_backward(const OptionalTensor& grad_out, const OptionalTensor& grad_sum,
                      const Tensor& sum_in, const Tensor& weight_in, const Tensor& rstd,
                      bool plus_one, bool weight_grad) {
  check_norm(sum_in, weight_in);
  if (!is_given(grad_out))
    return {is_given(grad_sum) ? *grad_sum : Tensor(),
            weight_grad ? weight_in.new_zeros(weight_in.sizes()) : empty({0}, sum_in.options())};
  const Tensor sum = sum_in.contiguous(), weight = weight_in.contiguous(),
               grad = grad_out->contiguous(),
               plus = is_given(grad_sum) ? grad_sum->contiguous() : Tensor();
  check_like(norm_name, "the gradient", grad, sum);
  if (grad.sizes() != sum.sizes() || (plus.defined() && plus.sizes() != sum.sizes()))
    fail_argument(norm_name, "the shape of the gradient differs from x", words(grad), words(sum));
  const std::int64_t rows = rows_of(sum), columns = sum.size(-1);
  Tensor to = empty_like_rows(sum), to_weight = empty({0}, sum.options());
  const Isa isa = best_isa();
  for_element(norm_name, sum, [&](auto element) {
    using S = decltype(element);
    using Real = typename RealOf<S>::type;
    const RmsNormGrad<S> pass{
        columns,         read<S>(grad),    read<S>(plus), read<S>(sum),
        read<S>(weight), read<Real>(rstd), write<S>(to),  plus_one ? Real{1} : Real{0}};
    TaskSums<Real> sums(weight_grad ? rows : 0, columns);
    parallel_rows(rows, columns,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t task) {
                    rms_norm_grad(isa, pass, begin, end, weight_grad ? sums.of(task) : nullptr);
                  });
    if (weight_grad) to_weight = sums.total(weight.options()).to(weight.scalar_type());
  });
  return {to, to_weight};
}

Tensor gated_forward(const Tensor& gate_up_in, std::int64_t activation) {
  check_gate_up(gate_up_in);
  const Gate gate = gate_of(activation);
  const Tensor gate_up = gate_up_in.contiguous();
  const std::int64_t columns = gate_up.size(-1) / 2;
  std::vector<std::int64_t> sizes = gate_up.sizes().vec();
  sizes.back() = columns;
  Tensor out = empty(sizes, gate_up.options());
  const Isa isa = best_isa();
  for_element(gated_name, gate_up, [&](auto element) {
    using S = decltype(element);
    const GatedRows<S> pass{columns, read<S>(gate_up), write<S>(out), gate};
    parallel_rows(rows_of(gate_up), columns,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    gated_rows(isa, pass, begin, end);
                  });
  });
  return out;
}

Tensor gated_backward(const Tensor& grad_out, const Tensor& gate_up_in, std::int64_t activation) {
  check_gate_up(gate_up_in);
  check_like(gated_name, "the gradient", grad_out, gate_up_in);
  if (2 * grad_out.numel() != gate_up_in.numel())
    fail_argument(gated_name, "the shape of the gradient is wrong", words(grad_out),
                  "half of " + words(gate_up_in));
  const Gate gate = gate_of(activation);
  const Tensor gate_up = gate_up_in.contiguous(), grad = grad_out.contiguous();
  const std::int64_t columns = gate_up.size(-1) / 2;
  Tensor to = empty_like_rows(gate_up);
  const Isa isa = best_isa();
  for_element(gated_name, gate_up, [&](auto element) {
    using S = decltype(element);
    const GatedRows<S> pass{columns, read<S>(gate_up), nullptr, gate};
    parallel_rows(rows_of(gate_up), columns,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    gated_rows_grad(isa, pass, read<S>(grad), write<S>(to), begin, end);
                  });
  });
  return to;
}

Three rotary_forward(const Tensor& qkv_in, const Tensor& cos_in, const Tensor& sin_in,
                     std::int64_t heads, std::int64_t kv_heads) {
  check_on_host(rotary_name, "qkv", qkv_in);
  const std::int64_t all = heads + 2 * kv_heads;
  if (qkv_in.dim() != 3 || heads < 1 || kv_heads < 1 || qkv_in.size(2) % all)
    fail_argument(rotary_name, "qkv cannot be split into heads",
                  words(qkv_in) + " for " + std::to_string(heads) + " query heads and " +
                      std::to_string(kv_heads) + " key heads",
                  "[batch, time, (heads + 2 * kv_heads) * head_dim]");
  const Tensor qkv = qkv_in.contiguous(), cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const RotarySizes n{qkv.size(0), qkv.size(1),       heads,
                      kv_heads,    qkv.size(2) / all, cos.dim() ? cos.size(-1) : 0};
  check_tables(qkv, cos, sin, n);
  const auto make = [&](std::int64_t count) {
    return empty({n.batch, n.time, count, n.dim}, qkv.options()).transpose(1, 2);
  };
  Tensor q = make(heads), k = make(kv_heads), v = make(kv_heads);
  const Isa isa = best_isa();
  for_element(rotary_name, qkv, [&](auto element) {
    using S = decltype(element);
    const auto pass = rotary_rows<S>(n, cos, sin, qkv, q, k, v);
    parallel_rows(n.batch * n.time, qkv.size(2),
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    rotary_split_rows(isa, pass, begin, end);
                  });
  });
  return {q, k, v};
}

Tensor rotary_backward(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v,
                       const Tensor& cos_in, const Tensor& sin_in) {
  check_on_host(rotary_name, "the gradient", grad_q);
  check_like(rotary_name, "the gradient of key", grad_k, grad_q);
  check_like(rotary_name, "the gradient of value", grad_v, grad_q);
  if (grad_q.dim() != 4 || grad_k.dim() != 4 || grad_k.sizes() != grad_v.sizes() ||
      grad_k.size(0) != grad_q.size(0) || grad_k.size(2) != grad_q.size(2) ||
      grad_k.size(3) != grad_q.size(3))
    fail_argument(rotary_name, "the shapes of the gradients do not match", words(grad_k),
                  words(grad_q));
  const Tensor q = with_dense_rows(grad_q), k = with_dense_rows(grad_k),
               v = with_dense_rows(grad_v), cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const RotarySizes n{q.size(0), q.size(2), q.size(1),
                      k.size(1), q.size(3), cos.dim() ? cos.size(-1) : 0};
  check_tables(q, cos, sin, n);
  Tensor to = empty({n.batch, n.time, (n.heads + 2 * n.kv_heads) * n.dim}, q.options());
  const Isa isa = best_isa();
  for_element(rotary_name, q, [&](auto element) {
    using S = decltype(element);
    const auto pass = rotary_rows<S>(n, cos, sin, to, q, k, v);
    parallel_rows(n.batch * n.time, to.size(2),
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    rotary_join_rows(isa, pass, begin, end);
                  });
  });
  return to;
}

}  // namespace anyaccel::ops
