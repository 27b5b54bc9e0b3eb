// CPU kernels for Evoformer attention: threading, and the reduction of gradients that several heads
// share.
#include "ATen/TensorOperators.h"
#include "kernels/attention/evoformer.h"
#include "ops/evoformer_attn/arguments.h"
#include "ops/shared/empty.h"
#include "ops/shared/scratch.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

/// A 5-dimensional tensor with pointers to its heads.
struct Heads {
  Tensor tensor;
  std::int64_t size = 0;
  char* at = nullptr;

  explicit Heads(const Tensor& arguments)
      : tensor(five(arguments)), size(static_cast<std::int64_t>(tensor.element_size())) {
    // Const is cast away here; the memory is written only if the caller has checked that the tensor
    // may be changed.
    at = static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
  }
  explicit Heads(const OptionalTensor& optional) {
    if (is_given(optional)) *this = Heads(*optional);
  }
  explicit operator bool() const { return tensor.defined(); }

  /// Returns a pointer to a head. `head_dim` is 3 for [batch, entries, length, heads, dim], and 2
  /// for [batch, 1, heads, queries, keys].
  void* of(const EvoformerSizes::Place& place, std::int64_t head_dim = 3) const {
    if (!tensor.defined()) return nullptr;
    const auto step = [&](std::int64_t dim, std::int64_t index) {
      return tensor.size(dim) == 1 ? 0 : index * tensor.stride(dim);
    };
    return at + (step(0, place.batch) + step(1, place.entry) + step(head_dim, place.head)) * size;
  }
  std::int64_t row() const { return tensor.stride(2); }
};

template <typename T>
struct Call {
  Heads q, k, v, bias1, bias2, out;
  const Tensor& lse;
  T* lse_at;
  EvoformerSizes sizes;
  T scale;

  Call(const EvoformerArguments& g, const Tensor& result, const Tensor& sums)
      : q(g.q),
        k(g.k),
        v(g.v),
        bias1(g.bias1),
        bias2(g.bias2),
        out(result),
        lse(sums),
        lse_at(const_cast<T*>(sums.const_data_ptr<T>())),
        sizes(q.tensor, k.tensor),
        scale(static_cast<T>(g.factor())) {}

  EvoformerHead<T> head(const EvoformerSizes::Place& at) const {
    return {.q = q.of(at),
            .k = k.of(at),
            .v = v.of(at),
            .q_row = q.row(),
            .k_row = k.row(),
            .v_row = v.row(),
            .queries = sizes.queries,
            .keys = sizes.keys,
            .dim = sizes.dim,
            .scale = scale,
            .bias1 = bias1.of(at),
            .bias2 = bias2.of(at, 2),
            .bias2_row = bias2 ? bias2.tensor.stride(3) : 0,
            .out = out.of(at),
            .out_row = out.row(),
            .lse = lse_at + (at.batch * sizes.entries + at.entry) * lse.stride(0) +
                   at.head * lse.stride(1)};
  }
};

void check_on_host(const EvoformerArguments& g) {
  ops::check_on_host(evoformer_where, "the query", g.q);
}

template <typename T, typename Forward>
void forward_as(const EvoformerArguments& g, const Tensor& out, const Tensor& lse,
                const Forward& forward) {
  const Call<T> call(g, out, lse);
  const EvoformerSizes& sizes = call.sizes;
  const ScratchMemory<T> scratch(evoformer_forward_scratch(sizes.keys, sizes.dim));
  const std::int64_t tiles = (sizes.queries + evoformer_tile - 1) / evoformer_tile;
  if (sizes.all_heads() == 0 || tiles == 0) return;
  // If there are few heads, split the queries of each head among several tasks, although each of
  // these tasks must then pack the head's keys and values.
  const std::int64_t wanted = (4 * scratch.threads() + sizes.all_heads() - 1) / sizes.all_heads();
  const std::int64_t part =
      (tiles + std::min(wanted, tiles) - 1) / std::min(wanted, tiles) * evoformer_tile;
  const std::int64_t parts = (sizes.queries + part - 1) / part;
  parallel_tasks(sizes.all_heads() * parts, scratch.threads(),
                 [&](std::int64_t task, std::int64_t thread) {
                   const std::int64_t begin = task % parts * part;
                   forward(call.head(sizes.place(task / parts)), begin,
                           std::min(sizes.queries, begin + part), scratch.of(thread));
                 });
}

void forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& bias1,
                 const OptionalTensor& bias2, std::optional<double> scale, const Tensor& out,
                 const Tensor& lse) {
  const EvoformerArguments g{q, k, v, bias1, bias2, scale};
  check_arguments(g);
  check_on_host(g);
  check_result("the result", out, q, q.scalar_type());
  const EvoformerSizes sizes(five(q), five(k));
  check_lse(lse, sizes, real_type(q), q);
  changed_memory(out);
  changed_memory(lse);
  const Isa isa = best_isa();
  if (q.scalar_type() == at::kDouble) {
    forward_as<double>(g, out, lse, [](auto... arguments) { evoformer_forward(arguments...); });
  } else {
    const Element element = element_of(evoformer_where, "the query", q);
    forward_as<float>(g, out, lse,
                      [&](auto... arguments) { evoformer_forward(isa, element, arguments...); });
  }
  fill_end(lse, sizes.queries);
}

/// Partition of the work on the gradient of bias2. A slice is one head of a batch entry. Each slice
/// has one task per group of entries, and each group accumulates into separate memory. With up to 8
/// threads, the partition, and therefore the bits of the result, do not depend on the number of
/// threads.
struct Division {
  std::int64_t slices, groups, entries;

  Division(const EvoformerSizes& sizes, std::int64_t threads, bool shared)
      : slices(sizes.batch * sizes.heads), groups(sizes.entries), entries(sizes.entries) {
    if (!shared) return;
    const std::int64_t wanted = std::max<std::int64_t>(16, 2 * threads);
    groups = std::clamp<std::int64_t>((wanted + slices - 1) / std::max<std::int64_t>(1, slices), 1,
                                      std::max<std::int64_t>(1, entries));
  }
  std::int64_t begin(std::int64_t group) const { return entries * group / groups; }
};

template <typename T, typename Backward>
void backward_as(const EvoformerArguments& g, const EvoformerBackward& b,
                 const Backward& backward) {
  const Call<T> call(g, b.out, b.lse);
  const EvoformerSizes& sizes = call.sizes;
  const Heads grad(b.grad), dq(b.dq), dk(b.dk), dv(b.dv);
  const auto options = g.q.options().dtype(real_type(g.q)).requires_grad(false);
  // Contributions of all heads to the gradient of bias1, which are added afterwards in a fixed
  // order.
  Tensor shares;
  if (is_given(b.dbias1))
    shares = empty({sizes.batch, sizes.entries, sizes.heads, sizes.keys}, options);
  const ScratchMemory<T> scratch(evoformer_backward_scratch(sizes.keys, sizes.dim));
  const Division parts(sizes, scratch.threads(), is_given(b.dbias2));
  Tensor copies;
  const bool copied = is_given(b.dbias2) && parts.groups > 1;
  const std::int64_t square = sizes.queries * sizes.keys;
  if (copied)
    copies =
        empty({parts.groups, sizes.batch, sizes.heads, sizes.queries, sizes.keys}, options).zero_();
  T* const share = shares.defined() ? shares.mutable_data_ptr<T>() : nullptr;
  T* const dbias2 = copied               ? copies.mutable_data_ptr<T>()
                    : is_given(b.dbias2) ? b.dbias2->mutable_data_ptr<T>()
                                         : nullptr;
  parallel_tasks(
      parts.slices * parts.groups, scratch.threads(), [&](std::int64_t task, std::int64_t thread) {
        const std::int64_t slice = task / parts.groups, group = task % parts.groups;
        for (std::int64_t entry = parts.begin(group); entry < parts.begin(group + 1); ++entry) {
          const EvoformerSizes::Place at{slice / sizes.heads, entry, slice % sizes.heads};
          const EvoformerGrads<T> grads{
              .grad_out = grad.of(at),
              .grad_row = grad.row(),
              .dq = dq.of(at),
              .dk = dk.of(at),
              .dv = dv.of(at),
              .dq_row = dq.row(),
              .dk_row = dk.row(),
              .dv_row = dv.row(),
              .dbias1 = share
                            ? share + ((at.batch * sizes.entries + entry) * sizes.heads + at.head) *
                                          sizes.keys
                            : nullptr,
              .dbias2 = dbias2 ? dbias2 + ((copied ? group * parts.slices : 0) + slice) * square
                               : nullptr};
          backward(call.head(at), grads, scratch.of(thread));
        }
      });
  if (shares.defined()) five(*b.dbias1).select(3, 0).select(2, 0).add_(shares.sum(2));
  if (copied) five(*b.dbias2).select(1, 0).add_(copies.sum(0));
}

void backward_cpu(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& out, const Tensor& lse, const OptionalTensor& bias1,
                  const OptionalTensor& bias2, std::optional<double> scale, const Tensor& dq,
                  const Tensor& dk, const Tensor& dv, const OptionalTensor& dbias1,
                  const OptionalTensor& dbias2) {
  const EvoformerArguments g{q, k, v, bias1, bias2, scale};
  const EvoformerBackward b{grad, out, lse, dq, dk, dv, dbias1, dbias2};
  check_arguments(g);
  check_on_host(g);
  check_backward(g, b);
  check_lse(lse, EvoformerSizes(five(q), five(k)), real_type(q), q);
  for (const Tensor* tensor : {&dq, &dk, &dv}) changed_memory(*tensor);
  for (const OptionalTensor* tensor : {&dbias1, &dbias2})
    if (is_given(*tensor)) changed_memory(**tensor);
  if (q.scalar_type() == at::kDouble)
    return backward_as<double>(g, b,
                               [](const auto&... arguments) { evoformer_backward(arguments...); });
  const Isa isa = best_isa();
  const Element element = element_of(evoformer_where, "the query", q);
  backward_as<float>(
      g, b, [&](const auto&... arguments) { evoformer_backward(isa, element, arguments...); });
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl("_evoformer_attention_into", forward_cpu);
  m.impl("_evoformer_attention_backward_into", backward_cpu);
}

}  // namespace
}  // namespace anyaccel::ops
