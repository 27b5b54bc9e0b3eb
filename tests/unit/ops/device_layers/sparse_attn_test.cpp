// Runs the device code path of block-sparse attention on the host and compares it with the op on
// host memory.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "anyaccel/ops/call.h"
#include "ops/sparse_attn/device.h"
#include "unit/ops/device_layers/expect_near.h"

namespace anyaccel::ops {
namespace {

using Forward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                           const Tensor&, std::int64_t, std::optional<double>,
                                           const OptionalTensor&, const OptionalTensor&,
                                           const OptionalTensor&, c10::string_view,
                                           c10::string_view);
using Backward = Grads(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                       std::int64_t, std::optional<double>, const OptionalTensor&,
                       const OptionalTensor&, const OptionalTensor&, c10::string_view,
                       c10::string_view, const Tensor&, const Tensor&, bool);

/// A call with random sizes and masks.
struct Call {
  Tensor q, k, v, layout, grad;
  std::int64_t block;
  OptionalTensor rpe, key_padding_mask, attn_mask;
  std::string padding_mode = "add", attn_mode = "add";

  Arguments arguments() const {
    return {
        q,        k, v, layout, block, std::nullopt, rpe, key_padding_mask, attn_mask, padding_mode,
        attn_mode};
  }
};

/// A numeric or Boolean mask that masks some keys.
Tensor mask_of(Chance& chance, at::IntArrayRef sizes, at::ScalarType type,
               const std::string& mode) {
  const Tensor seen = at::bernoulli(at::full(sizes, 0.7)).to(at::kBool);
  if (mode == "mul") return chance.once_in(2) ? seen : seen.to(type);
  const double hidden = chance.once_in(2) ? -HUGE_VAL : -200.0;
  return at::where(seen, at::randn(sizes), hidden).to(type);
}

Call random_call(Chance& chance, at::ScalarType type) {
  Call out;
  const std::int64_t batch = chance.whole(chance.once_in(8) ? 0 : 1, 2), heads = chance.whole(1, 3);
  out.block = 16 * chance.whole(1, 4);
  const std::int64_t length = out.block * chance.whole(chance.once_in(8) ? 0 : 1, 4),
                     blocks = length / out.block;
  const std::int64_t dim = chance.once_in(2) ? 16 * chance.whole(1, 4) : chance.whole(1, 40);
  const auto rows = [&] {
    const Tensor all = at::randn({batch, length, heads, dim}).to(type).transpose(1, 2);
    if (chance.once_in(3)) return all.contiguous();
    return chance.once_in(3) ? all.transpose(2, 3).contiguous().transpose(2, 3) : all;
  };
  out.q = rows();
  out.k = rows();
  out.v = rows();
  out.grad = chance.once_in(4) ? at::ones({1}).to(type).expand_as(out.q) : rows();
  out.layout = at::randint(0, 2, {chance.once_in(2) ? 1 : heads, blocks, blocks}).to(at::kLong);
  if (chance.once_in(2)) out.layout = out.layout.to(at::kBool);
  if (chance.once_in(2)) out.padding_mode = "mul";
  if (chance.once_in(2)) out.attn_mode = "mul";
  const auto of_type = [&] {
    return chance.once_in(2) ? type : chance.once_in(2) ? at::kFloat : at::kHalf;
  };
  if (chance.once_in(2)) {
    const std::int64_t shapes[][4] = {
        {batch, heads, length, length}, {1, heads, length, length}, {batch, 1, length, 1}};
    const auto kind = static_cast<std::size_t>(chance.whole(0, 3));
    out.rpe = kind < 3 ? mask_of(chance, shapes[kind], of_type(), "add")
                       : mask_of(chance, {length, length}, of_type(), "add");
  }
  if (chance.once_in(2))
    out.key_padding_mask =
        mask_of(chance, {chance.once_in(2) ? batch : 1, length}, of_type(), out.padding_mode);
  if (chance.once_in(2)) {
    out.attn_mask = mask_of(chance, {length, length}, of_type(), out.attn_mode);
    if (chance.once_in(2)) out.attn_mask = out.attn_mask->t();
  }
  return out;
}

// Fails if the device code path gives different results than the op on the host. Covers strides,
// masks, per-head layouts, rpe gradients and empty sizes.
TEST(SparseAttentionOnDevice, MatchesTheHost) {
  static const auto host_forward =
      load_op<Forward>("SparseAttnBuilder", "_sparse_attention_forward");
  static const auto host_backward =
      load_op<Backward>("SparseAttnBuilder", "_sparse_attention_backward");
  at::set_num_threads(1);  // the calls are small
  at::manual_seed(5);
  Chance chance(5);
  const at::ScalarType types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    const at::ScalarType type = types[i % 4];
    const Call call = random_call(chance, type);
    const Arguments g = call.arguments();
    check_types(g);
    check_sizes(g);
    const auto [out, stats] = sparse_forward_on_device(g, nullptr);
    const auto [want, want_stats] =
        host_forward.call(call.q, call.k, call.v, call.layout, call.block, std::nullopt, call.rpe,
                          call.key_padding_mask, call.attn_mask, call.padding_mode, call.attn_mode);
    expect_near("out", out, want, error_of(type));
    expect_near("stats", stats, want_stats, type == at::kDouble ? 1e-10 : 1e-4);
    // Both backward passes get the same output tensor.
    check_results(g, call.grad, want, want_stats);
    const auto [dq, dk, dv, drpe] =
        sparse_backward_on_device(call.grad, g, want, want_stats, true, nullptr);
    const auto [want_dq, want_dk, want_dv, want_drpe] =
        host_backward.call(call.grad, call.q, call.k, call.v, call.layout, call.block, std::nullopt,
                           call.rpe, call.key_padding_mask, call.attn_mask, call.padding_mode,
                           call.attn_mode, want, want_stats, true);
    expect_near("dq", dq, want_dq, 2 * error_of(type));
    expect_near("dk", dk, want_dk, 2 * error_of(type));
    expect_near("dv", dv, want_dv, 2 * error_of(type));
    expect_near("drpe", drpe, want_drpe, 4 * error_of(type));
    if (HasFailure()) return;
  }
}

// Fails if a backward pass accepts a gradient or output on a different device than the query.
TEST(SparseAttentionOnDevice, RejectsTensorsOnAnotherDevice) {
  Call call;
  call.block = 16;
  call.q = call.k = call.v = call.grad = at::randn({1, 1, 16, 8});
  call.layout = at::ones({1, 1, 1}).to(at::kLong);
  const Arguments g = call.arguments();
  const auto [out, stats] = sparse_forward_on_device(g, nullptr);
  check_results(g, call.grad, out, stats);
  const auto elsewhere = [](const Tensor& tensor) { return tensor.to(at::kMeta); };
  EXPECT_THROW(check_results(g, elsewhere(call.grad), out, stats), c10::ValueError);
  EXPECT_THROW(check_results(g, call.grad, elsewhere(out), stats), c10::ValueError);
  EXPECT_THROW(check_results(g, call.grad, out, elsewhere(stats)), c10::ValueError);
}

}  // namespace
}  // namespace anyaccel::ops
