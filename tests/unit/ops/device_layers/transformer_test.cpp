// Runs the device code path of the transformer layer on the host and compares all results, saved
// tensors and gradients with the op on host memory.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>

#include "anyaccel/ops/call.h"
#include "ops/transformer/device_layer.h"
#include "unit/ops/device_layers/expect_near.h"

namespace anyaccel::ops {
namespace {

#define GIVEN ANYACCEL_TRANSFORMER_GIVEN
using T = const Tensor&;
using Forward = TransformerForward(GIVEN, bool);
using Backward = TransformerBackward(T, GIVEN, T, T, T, T, T, T, T, T, T, T, T);

/// A call with random sizes, options and mask.
struct Call {
  Tensor input, qkvw, qkvb, ow, ob, nw, nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b,
      grad;
  OptionalTensor mask;
  std::int64_t heads = 1, seed = 0;
  double attn_dropout = 0, hidden_dropout = 0;
  bool pre = false, invertible = false, gelu_checkpoint = false;
  std::string gelu = "none";

  TransformerArguments arguments() const {
    return {input,
            mask,
            qkvw,
            qkvb,
            ow,
            ob,
            nw,
            nb,
            inter_w,
            inter_b,
            output_w,
            output_b,
            norm_w,
            norm_b,
            heads,
            attn_dropout,
            hidden_dropout,
            1e-5,
            seed,
            pre,
            false,
            invertible,
            gelu_checkpoint,
            false,
            gelu};
  }
  /// Calls `function` with the op's arguments.
  template <typename Function>
  auto with(const Function& function) const {
    return function(input, mask, qkvw, qkvb, ow, ob, nw, nb, inter_w, inter_b, output_w, output_b,
                    norm_w, norm_b, heads, attn_dropout, hidden_dropout, 1e-5, seed, pre, false,
                    invertible, gelu_checkpoint, false, c10::string_view(gelu));
  }
};

Call random_call(Chance& chance, at::ScalarType type) {
  Call c;
  const std::int64_t batch = chance.whole(chance.once_in(10) ? 0 : 1, 2),
                     length = chance.whole(chance.once_in(10) ? 0 : 1, 70);
  c.heads = chance.whole(1, 3);
  const std::int64_t hidden =
      c.heads * (chance.once_in(2) ? 16 * chance.whole(1, 2) : chance.whole(1, 20));
  const std::int64_t inter = chance.once_in(2) ? 16 * chance.whole(1, 6) : chance.whole(1, 90);
  // Random numbers of the call's dtype. The scales keep the results of matrix products close to 1.
  const auto numbers = [&](at::IntArrayRef sizes, double scale) {
    return at::randn(sizes).mul(scale).to(type);
  };
  const double small = 1 / std::sqrt(static_cast<double>(hidden));
  c.input = numbers({batch, length, hidden}, 1);
  if (chance.once_in(3)) c.input = numbers({length, batch, hidden}, 1).transpose(0, 1);
  c.qkvw = numbers({3 * hidden, hidden}, small);
  c.qkvb = numbers({3 * hidden}, 0.2);
  c.ow =
      chance.once_in(3) ? numbers({hidden, hidden}, small).t() : numbers({hidden, hidden}, small);
  c.ob = numbers({hidden}, 0.2);
  c.inter_w = numbers({inter, hidden}, small);
  c.inter_b = numbers({inter}, 0.2);
  c.output_w = numbers({hidden, inter}, 1 / std::sqrt(static_cast<double>(inter)));
  c.output_b = numbers({hidden}, 0.2);
  for (Tensor* weight : {&c.nw, &c.norm_w}) *weight = at::rand({hidden}).add(0.5).to(type);
  for (Tensor* shift : {&c.nb, &c.norm_b}) *shift = numbers({hidden}, 0.2);
  c.grad = numbers({batch, length, hidden}, 1);
  c.seed = chance.whole(0, 1 << 30);
  if (chance.once_in(2)) c.attn_dropout = 0.25;
  if (chance.once_in(2)) c.hidden_dropout = 0.125;
  c.pre = chance.once_in(2);
  // In 16 bits, values that are recovered by inversion are too imprecise to be compared.
  c.invertible = chance.once_in(3) && (type == at::kDouble || type == at::kFloat);
  c.gelu_checkpoint = chance.once_in(2);
  if (chance.once_in(2)) c.gelu = "tanh";
  const std::int64_t shapes[][4] = {{batch, 1, 1, length},
                                    {1, c.heads, length, length},
                                    {batch, 1, length, length},
                                    {1, 1, 1, length}};
  if (!chance.once_in(3)) {
    const Tensor seen = at::rand(shapes[chance.whole(0, 3)]).lt(0.7);
    c.mask = chance.once_in(2)   ? seen
             : chance.once_in(2) ? at::where(seen, 0.0, -100.0).to(type)
                                 : at::where(seen, 0.0, -HUGE_VAL).to(at::kHalf);
  }
  return c;
}

const char* const kept_names[] = {"output",   "inp_norm",        "qkv",       "attn_stats",
                                  "attn_out", "add_res",         "ff1_inp",   "gelu_inp",
                                  "ff2_inp",  "attn_norm_stats", "norm_stats"};
const char* const grad_names[] = {"input",    "attn_qkvw", "attn_qkvb", "attn_ow", "attn_ob",
                                  "attn_nw",  "attn_nb",   "inter_w",   "inter_b", "output_w",
                                  "output_b", "norm_w",    "norm_b"};

template <typename Results>
std::vector<Tensor> list_of(const Results& results) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, results);
}

// Fails if the device code path gives a different result, saved tensor or gradient than the op on
// the host. Covers strides, masks, dropout and all options.
TEST(TransformerOnDevice, MatchesTheHost) {
  static const auto host_forward =
      load_op<Forward>("TransformerBuilder", "_transformer_layer_forward");
  static const auto host_backward =
      load_op<Backward>("TransformerBuilder", "_transformer_layer_backward");
  at::set_num_threads(1);  // the calls are small
  at::manual_seed(6);
  Chance chance(6);
  const at::ScalarType types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    const at::ScalarType type = types[i % 4];
    const double error = type == at::kBFloat16 ? 6e-2 : 2 * error_of(type);
    const Call call = random_call(chance, type);
    const TransformerArguments g = call.arguments();
    check_transformer(g);
    check_transformer_sizes(g);
    const bool keep = !chance.once_in(4);
    const auto ours = list_of(device_transformer_forward(g, keep, nullptr));
    const TransformerForward whole =
        call.with([&](const auto&... arguments) { return host_forward.call(arguments..., keep); });
    const auto want = list_of(whole);
    for (std::size_t j = 0; j < want.size(); ++j)
      expect_near(kept_names[j], ours[j], want[j], error);
    if (HasFailure()) return;
    if (!keep) continue;
    // Both backward passes get the same saved tensors.
    const TransformerKept kept{want[1], want[2], want[3], want[4], want[5],
                               want[6], want[7], want[8], want[9], want[10]};
    check_transformer_kept(g, call.grad, want[0], kept);
    const auto grads = list_of(device_transformer_backward(g, call.grad, want[0], kept, nullptr));
    const auto want_grads = list_of(call.with([&](const auto&... arguments) {
      return host_backward.call(call.grad, arguments..., want[0], want[1], want[2], want[3],
                                want[4], want[5], want[6], want[7], want[8], want[9], want[10]);
    }));
    for (std::size_t j = 0; j < grads.size(); ++j) {
      const double greatest =
          want_grads[j].numel() ? want_grads[j].abs().max().to(at::kDouble).item<double>() : 0;
      // These are sums of many products, so small results have the same absolute error as large
      // ones.
      expect_near(grad_names[j], grads[j].div(1 + greatest), want_grads[j].div(1 + greatest),
                  error);
      EXPECT_EQ(grads[j].storage().nbytes(),
                static_cast<std::size_t>(grads[j].numel() * grads[j].element_size()))
          << grad_names[j];
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace anyaccel::ops
