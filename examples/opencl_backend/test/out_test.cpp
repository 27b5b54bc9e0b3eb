// Ops with `out=`: kernels that are registered by these names must check and resize the output.
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmv.h>
#include <ATen/ops/all.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>

#include "ops_test.h"

namespace {

/// Returns a result of the wrong size for `op`, which it must resize.
Tensor resized(const Tensor& like, const std::function<void(Tensor&)>& op, int dims = 2) {
  auto out =
      at::empty(std::vector<std::int64_t>(static_cast<std::size_t>(dims), 1), like.options());
  op(out);
  return out;
}
/// Returns a tensor on the device of `like`: whether `op` rejects its arguments.
Tensor rejected(const Tensor& like, const std::function<void(Tensor&)>& op) {
  bool thrown = false;
  try {
    resized(like, op);
  } catch (const c10::Error&) {
    thrown = true;
  }
  return at::full({}, thrown ? 1.0 : 0.0, like.options());
}

}  // namespace

void add_out_tests(const Add& add) {
  using T = Tensor;
  add(
      "out= of matrix products",
      {values({37, 50}), values({50, 41}), values({3, 17, 20}), values({3, 20, 33}), values({50})},
      [](const Tensors& in) {
        const auto &a = in[0], &b = in[1], &x = in[2], &y = in[3], &v = in[4];
        return Tensors{resized(a, [&](T& out) { at::mm_out(out, a, b); }),
                       resized(a, [&](T& out) { at::addmm_out(out, b[0], a, b); }),
                       resized(
                           a, [&](T& out) { at::addmv_out(out, a.select(1, 0), a, v); }, 1),
                       resized(
                           a, [&](T& out) { at::bmm_out(out, x, y); }, 3),
                       resized(
                           a, [&](T& out) { at::baddbmm_out(out, x.narrow(2, 0, 1), x, y); }, 3)};
      },
      1e-4);
  add(
      "out= of reductions", {values({64, 70}), values({64, 70}).gt(-1.9)},
      [](const Tensors& in) {
        return Tensors{resized(
                           in[0], [&](T& out) { at::sum_out(out, in[0], 0); }, 1),
                       resized(in[0], [&](T& out) { at::mean_out(out, in[0], 1, true); }),
                       resized(
                           in[0], [&](T& out) { at::linalg_vector_norm_out(out, in[0], 2, 1); }, 1),
                       resized(
                           in[1], [&](T& out) { at::all_out(out, in[1], 1); }, 1)};
      },
      1e-4);
  add(
      "out= of softmax", {values({40, 70}), values({40, 70})},
      [](const Tensors& in) {
        const auto &x = in[0], &y = in[1];
        const auto f = at::kFloat;
        return Tensors{
            resized(x, [&](T& out) { at::_softmax_out(out, x, 1, false); }),
            resized(x, [&](T& out) { at::_log_softmax_out(out, x, 1, false); }),
            resized(x, [&](T& out) { at::_softmax_backward_data_out(out, y, x, 1, f); }),
            resized(x, [&](T& out) { at::_log_softmax_backward_data_out(out, y, x, 1, f); })};
      },
      1e-4);
  add(
      "out= of nll_loss, cat, tril and triu", {values({50, 30}), labels(50, 30)},
      [](const Tensors& in) {
        const auto& x = in[0];
        auto total = at::empty({3}, x.options());
        const auto mean = at::Reduction::Mean;
        const auto loss = resized(
            x, [&](T& out) { at::nll_loss_forward_out(out, total, x, in[1], {}, mean, 7); });
        const auto one = at::ones_like(loss);
        const auto gradient = resized(
            x, [&](T& out) { at::nll_loss_backward_out(out, one, x, in[1], {}, mean, 7, total); });
        return Tensors{loss,
                       total,
                       gradient,
                       resized(x,
                               [&](T& out) {
                                 at::cat_out(out, {x, x}, 1);
                               }),
                       resized(x, [&](T& out) { at::tril_out(out, x, 1); }),
                       resized(x, [&](T& out) { at::triu_out(out, x); })};
      },
      1e-5);
  add(
      "out= of elementwise ops", {values({64, 70}), values({70}), values({64, 70}).gt(0)},
      [](const Tensors& in) {
        const auto &x = in[0], &y = in[1];
        return Tensors{resized(x, [&](T& out) { at::add_out(out, x, y); }),
                       resized(x, [&](T& out) { at::exp_out(out, x); }),
                       resized(x, [&](T& out) { at::pow_out(out, x, 2); }),
                       resized(x, [&](T& out) { at::gelu_out(out, x); }),
                       resized(x, [&](T& out) { at::addcmul_out(out, x, x, y); }),
                       resized(x, [&](T& out) { at::lerp_out(out, x, x, 0.3); }),
                       resized(x, [&](T& out) { at::where_out(out, in[2], x, y); })};
      },
      1e-5);
  add(
      "arguments that do not fit",
      {values({6, 5}), values({4, 7}), values({2, 4, 7}), labels(5, 4)},
      [](const Tensors& in) {
        const auto &a = in[0], &b = in[1], &batch = in[2];
        const auto wide = a.to(at::kDouble);
        return Tensors{
            rejected(a, [&](T& out) { at::mm_out(out, a, b); }),
            rejected(a, [&](T& out) { at::addmm_out(out, a[0], a, b); }),
            rejected(a, [&](T& out) { at::addmm_out(out, a[0], b.t(), b); }),
            rejected(a, [&](T& out) { at::addmv_out(out, a[0], a, b[0]); }),
            rejected(a, [&](T& out) { at::bmm_out(out, batch, batch); }),
            rejected(a, [&](T& out) { at::baddbmm_out(out, a, batch, batch.transpose(1, 2)); }),
            rejected(wide, [&](T& out) { at::mm_out(out, b.t(), b); }),
            rejected(wide, [&](T& out) { at::tril_out(out, a); }),
            rejected(a,
                     [&](T& out) {
                       at::cat_out(out, {a, b}, 1);
                     }),
            rejected(a, [&](T& out) { at::_softmax_out(out, a, 2, false); }),
            rejected(a, [&](T& out) { at::nll_loss_backward_out(out, a, a, in[3], {}, 1, 7, a); })};
      },
      0);
}
