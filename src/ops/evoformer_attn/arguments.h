// Arguments of Evoformer attention, their checks, and the memory layout of heads.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

inline bool is_given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

struct EvoformerArguments {
  const Tensor &q, &k, &v;
  const OptionalTensor &bias1, &bias2;
  std::optional<double> scale;

  double factor() const {
    return scale ? *scale
                 : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.size(-1))));
  }
};

constexpr const char* evoformer_where = "evoformer_attention";

/// Performs the checks that also work with symbolic shapes.
inline void check_kinds(const EvoformerArguments& g) {
  constexpr const char* where = evoformer_where;
  if (g.q.dim() < 4)
    fail_argument(where, "the query has the wrong shape", words(g.q),
                  "[..., entries, length, heads, head dim]");
  if (g.q.scalar_type() != at::kDouble) element_of(where, "the query", g.q);
  const auto check = [&](const char* name, const Tensor& tensor) {
    if (tensor.scalar_type() != g.q.scalar_type() || tensor.dim() != g.q.dim() ||
        tensor.device() != g.q.device())
      fail_argument(where,
                    std::string(name) + " differs from the query in dtype, dimensions or device",
                    words(tensor), words(g.q));
  };
  check("the key", g.k);
  check("the value", g.v);
  if (is_given(g.bias1)) check("bias1", *g.bias1);
  if (is_given(g.bias2)) check("bias2", *g.bias2);
  if (g.scale && !std::isfinite(*g.scale))
    fail_argument(where, "the scale is not finite", std::to_string(*g.scale), "a finite number");
}

inline void check_arguments(const EvoformerArguments& g) {
  check_kinds(g);
  constexpr const char* where = evoformer_where;
  const std::int64_t dims = g.q.dim(), keys = g.k.size(-3);
  const auto check = [&](const char* name, const Tensor& tensor,
                         const std::vector<std::int64_t>& want) {
    if (tensor.sizes() != at::IntArrayRef(want))
      fail_argument(where, std::string(name) + " has the wrong shape", words(tensor),
                    c10::str(want));
  };
  std::vector<std::int64_t> sizes = g.q.sizes().vec();
  const auto at = [&](std::int64_t last) -> std::int64_t& {
    return sizes[static_cast<std::size_t>(dims - last)];
  };
  at(3) = keys;
  check("the key", g.k, sizes);
  check("the value", g.v, sizes);
  at(3) = at(2) = 1;
  at(1) = keys;
  if (is_given(g.bias1)) check("bias1", *g.bias1, sizes);
  at(4) = 1;
  at(3) = g.q.size(-2);
  at(2) = g.q.size(-3);
  if (is_given(g.bias2)) check("bias2", *g.bias2, sizes);
}

/// Reshapes a tensor to [batch, entries, ...], with the last three dimensions unchanged. Makes the
/// last dimension contiguous.
inline Tensor five(const Tensor& tensor) {
  const Tensor out = tensor.dim() == 4 ? tensor.unsqueeze(0) : tensor.flatten(0, tensor.dim() - 5);
  return out.stride(4) == 1 || out.size(4) <= 1 ? out : out.contiguous();
}

/// Sizes of a call, and the order in which its heads are processed. Heads that share bias2 are
/// adjacent.
struct EvoformerSizes {
  std::int64_t batch, entries, queries, keys, heads, dim;

  explicit EvoformerSizes(const Tensor& q, const Tensor& k)
      : batch(q.size(0)),
        entries(q.size(1)),
        queries(q.size(2)),
        keys(k.size(2)),
        heads(q.size(3)),
        dim(q.size(4)) {}
  std::int64_t all_heads() const { return batch * entries * heads; }

  struct Place {
    std::int64_t batch, entry, head;
  };
  Place place(std::int64_t index) const {
    return {index / (entries * heads), index % entries, index / entries % heads};
  }
};

/// Checks `lse`, which must be [batch * entries, heads, at least queries].
inline void check_lse(const Tensor& lse, const EvoformerSizes& sizes, at::ScalarType type,
                      const Tensor& q) {
  if (lse.scalar_type() != type || lse.dim() != 3 || lse.size(0) != sizes.batch * sizes.entries ||
      lse.size(1) != sizes.heads || lse.size(2) < sizes.queries ||
      (lse.size(2) > 1 && lse.stride(2) != 1) || lse.device() != q.device())
    fail_argument(evoformer_where, "lse has the wrong shape, dtype, strides or device", words(lse),
                  c10::str(type, " [", sizes.batch * sizes.entries, ", ", sizes.heads, ", ",
                           sizes.queries, " or more]"));
}

/// Fills the padding of `lse` with infinity, so that all keys have zero weight for padded queries.
/// DeepSpeed allocates `lse` for more queries than there are.
inline void fill_end(const Tensor& lse, std::int64_t queries) {
  if (lse.size(2) > queries) lse.narrow(2, queries, lse.size(2) - queries).fill_(HUGE_VAL);
}

/// Checks that an output tensor is contiguous and has the shape of `like`.
inline void check_result(const char* name, const Tensor& tensor, const Tensor& like,
                         at::ScalarType type) {
  if (tensor.sizes() != like.sizes() || tensor.scalar_type() != type || !tensor.is_contiguous() ||
      tensor.device() != like.device())
    fail_argument(evoformer_where,
                  std::string(name) + " has the wrong shape, dtype, strides or device",
                  words(tensor), c10::str("contiguous ", type, " ", like.sizes()));
}

/// Returns the compute dtype, which is also the dtype of lse and of the biases' gradients.
inline at::ScalarType real_type(const Tensor& q) {
  return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Additional arguments for the backward pass.
struct EvoformerBackward {
  const Tensor &grad, &out, &lse, &dq, &dk, &dv;
  const OptionalTensor &dbias1, &dbias2;
};

inline void check_backward(const EvoformerArguments& g, const EvoformerBackward& b) {
  if (b.grad.sizes() != g.q.sizes() || b.grad.scalar_type() != g.q.scalar_type() ||
      b.out.sizes() != g.q.sizes() || b.out.scalar_type() != g.q.scalar_type())
    fail_argument(evoformer_where, "the gradient or the result has the wrong shape or dtype",
                  words(b.grad) + " and " + words(b.out), words(g.q));
  check_result("dq", b.dq, g.q, g.q.scalar_type());
  check_result("dk", b.dk, g.k, g.q.scalar_type());
  check_result("dv", b.dv, g.v, g.q.scalar_type());
  const auto check = [&](const char* name, const OptionalTensor& grad, const OptionalTensor& bias) {
    if (!is_given(grad)) return;
    if (!is_given(bias))
      fail_argument(evoformer_where, std::string(name) + " requires its bias", words(*grad),
                    "none");
    check_result(name, *grad, *bias, real_type(g.q));
  };
  check("dbias1", b.dbias1, g.bias1);
  check("dbias2", b.dbias2, g.bias2);
}

}  // namespace anyaccel::ops
