// Replayed ops must match eager execution bit for bit.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "backends/cpu/graph/graph.h"

namespace anyaccel::backends::cpu {
namespace {

using at::Tensor;

struct Case {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> work;  // x and y are n x n
};

std::vector<Case> cases() {
  const auto loss = [](const Tensor& out) { return out.square().mean(); };
  return {
      {"add", [](auto& x, auto& y) { return x + y; }},
      {"add_scalar", [](auto& x, auto&) { return x + 1.25; }},
      {"rsub", [](auto& x, auto&) { return 1 - x; }},
      {"add_alpha", [](auto& x, auto& y) { return x.add(y, 0.5); }},
      {"sub", [](auto& x, auto& y) { return x - y; }},
      {"mul", [](auto& x, auto& y) { return x * y; }},
      {"mul_scalar", [](auto& x, auto&) { return x * 0.3; }},
      {"div", [](auto& x, auto& y) { return x / y; }},
      {"div_scalar", [](auto& x, auto&) { return x / 3; }},
      {"broadcast_row", [](auto& x, auto& y) { return x * y.select(0, 0); }},
      {"broadcast_column", [](auto& x, auto& y) { return x * y.select(1, 0).unsqueeze(1); }},
      {"transposed", [](auto& x, auto& y) { return x.t() + y; }},
      {"slice", [](auto& x, auto& y) { return x.slice(1, 1) * y.slice(1, 0, -1); }},
      {"number_tensor", [](auto& x, auto& y) { return x * y.select(0, 0).select(0, 0); }},
      {"mixed_types", [](auto& x, auto& y) { return x + y.to(at::kDouble); }},
      {"in_place",
       [](auto& x, auto& y) { return x.clone().add_(y).mul_(2).sub_(y).div_(3).relu_().neg_(); }},
      {"in_place_slice",
       [](auto& x, auto& y) {
         auto z = x.clone();
         z.slice(1, 0, 1).copy_(y.slice(1, 0, 1));
         z.select(0, 0).zero_();
         z.select(1, 0).fill_(4);
         return z;
       }},
      {"activations",
       [](auto& x, auto&) {
         return x.relu() + x.tanh() + x.sigmoid() + at::silu(x) + at::gelu(x);
       }},
      {"gelu_tanh", [](auto& x, auto&) { return at::gelu(x, "tanh"); }},
      {"unary",
       [](auto& x, auto&) {
         return x.abs().add(1).rsqrt() + x.exp().log() + x.sin() * x.cos() + x.erf();
       }},
      {"pow",
       [](auto& x, auto&) {
         return x.pow(2) + x.pow(3) + x.abs().pow(0.5) + x.square() + x.reciprocal();
       }},
      {"clamp",
       [](auto& x, auto&) { return x.clamp(-0.5, 0.5) + x.clamp_min(0.1) + x.clamp_max(0.2); }},
      {"addcmul",
       [](auto& x, auto& y) { return at::addcmul(x, x, y, 0.1) + at::addcdiv(x, x, y, 0.2); }},
      {"lerp", [](auto& x, auto& y) { return at::lerp(x, y, 0.3) + at::lerp(x, y, x); }},
      {"compare", [](auto& x, auto& y) { return at::where(x > y, x, y) + (x == y).to(x.dtype()); }},
      {"maximum", [](auto& x, auto& y) { return x.maximum(y) - x.minimum(y); }},
      {"sum",
       [](auto& x, auto&) {
         return x.sum() + x.sum(0) + x.sum(1, true) + x.mean() + x.mean(1, true);
       }},
      {"norm", [](auto& x, auto&) { return x.norm() + x.norm(2, 1); }},
      {"amax", [](auto& x,
                  auto&) { return x.amax(1) + x.argmax(1).to(x.dtype()) + std::get<0>(x.max(0)); }},
      {"cumsum", [](auto& x, auto&) { return x.cumsum(1); }},
      {"softmax",
       [](auto& x, auto&) {
         return at::softmax(x, 1) + at::log_softmax(x, -1) + at::softmax(x, 0);
       }},
      {"mm", [](auto& x, auto& y) { return x.mm(y) + x.mm(y.t()) + x.t().mm(y); }},
      {"mv", [](auto& x, auto& y) { return x.mv(y.select(0, 0)); }},
      {"addmm",
       [](auto& x, auto& y) {
         return at::addmm(x.select(0, 0), x, y) + at::addmm(x, x, y, 0.5, 2);
       }},
      {"bmm", [](auto& x, auto& y) { return at::bmm(x.unsqueeze(0), y.unsqueeze(0)); }},
      {"matmul",
       [](auto& x, auto& y) {
         return x.view({1, x.size(0), x.size(1)}).matmul(y);
       }},
      {"cat",
       [](auto& x, auto& y) {
         return at::cat({x, y}, 1) + at::stack({x, y}, 1).reshape({x.size(0), -1});
       }},
      {"views",
       [](auto& x, auto&) {
         return x.t().contiguous().view({-1}).narrow(0, 1, 2).expand({3, 2}).clone();
       }},
      {"metadata",
       [](auto& x, auto&) {
         auto z = x * 2;
         z.t_();
         auto w = z + 1;
         z.unsqueeze_(0);
         return w + z.squeeze(0);
       }},
      {"constants",
       [](auto& x, auto&) {
         return x + at::zeros_like(x) + at::ones({x.size(1)}) + at::arange(x.size(1)) +
                at::scalar_tensor(3.0);
       }},
      {"accumulate_in_constant",
       [](auto& x, auto&) {
         auto total = at::zeros({x.size(1)});
         for (int i = 0; i < 3; ++i) total.add_(x.select(0, i));
         auto number = at::scalar_tensor(1.0);
         return total * number.add_(x.sum());
       }},
      {"masked_fill",
       [](auto& x, auto& y) { return x.masked_fill(y > 0, -1e9) + x.masked_fill(y < 0, y.sum()); }},
      {"tril", [](auto& x, auto&) { return x.tril() + x.triu(1); }},
      {"gather",
       [](auto& x, auto& y) {
         return x.gather(1, std::get<1>(y.sort(1))) + x.index_select(0, y.argmax(1));
       }},
      {"index", [](auto& x, auto& y) { return x.index({y.argmax(1)}); }},
      {"index_put",
       [](auto& x, auto& y) { return x.clone().index_put_({y.select(1, 0).argsort()}, y); }},
      {"scatter_add", [](auto& x, auto& y) { return x.scatter_add(1, std::get<1>(y.sort(1)), y); }},
      {"sort", [](auto& x, auto&) { return std::get<0>(x.sort(1)) + std::get<0>(x.topk(1, 1)); }},
      {"embedding", [](auto& x, auto& y) { return at::embedding(x, y.argmax(1)); }},
      {"layer_norm",
       [](auto& x, auto& y) {
         return at::layer_norm(x, {x.size(1)}, y.select(0, 0), y.select(0, 1));
       }},
      {"rms_norm",
       [](auto& x, auto& y) { return at::rms_norm(x, {x.size(1)}, y.select(0, 0), 1e-5); }},
      {"attention",
       [](auto& x, auto& y) {
         const auto q = x.view({1, 1, x.size(0), x.size(1)}),
                    k = y.view({1, 1, y.size(0), y.size(1)});
         return at::scaled_dot_product_attention(q, k, k, {}, 0.0, /*is_causal=*/true);
       }},
      {"losses",
       [](auto& x, auto& y) {
         return at::mse_loss(x, y) + at::smooth_l1_loss(x, y) +
                at::cross_entropy_loss(x, y.argmax(1));
       }},
      {"foreach",
       [](auto& x, auto& y) {
         std::vector<Tensor> list = {x.clone(), y.clone()};
         at::_foreach_mul_(list, 2.0);
         at::_foreach_mul_(list, x.sum());
         return list[0] + list[1] + at::stack(at::_foreach_norm(list)).sum();
       }},
      {"bf16",
       [](auto& x, auto& y) {
         return (x.to(at::kBFloat16) * 1.5 + y.to(at::kBFloat16)).mm(x.to(at::kBFloat16));
       }},
      {"backward",
       [loss](auto& x, auto& y) {
         const auto w = y.detach().clone().set_requires_grad(true);
         loss(at::gelu(x.mm(w)) + at::silu(x * w).tanh()).backward();
         return w.grad();
       }},
      {"backward_of_in_place",
       // Autograd saves a copy of the input of silu_ and pow_. Each replay must repeat this copy.
       [loss](auto& x, auto& y) {
         const auto w = y.detach().clone().set_requires_grad(true);
         auto h = x * w;
         at::silu_(h);
         h.pow_(3);
         loss(h).backward();
         return w.grad();
       }},
  };
}

class OpsTest : public testing::TestWithParam<int> {};

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto first = a.contiguous(), second = b.contiguous();
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(first.data_ptr(), second.data_ptr(), first.nbytes()) == 0;
}

// Fails if a replayed op differs from eager execution in any bit, or does not run on the current
// inputs.
TEST_P(OpsTest, ReplayMatchesEager) {
  for (const auto& [name, work] : cases()) {
    const auto x = at::randn({GetParam(), GetParam()}), y = at::randn({GetParam(), GetParam()});
    auto graph = make_cpu_graph();
    graph->capture_begin(std::nullopt);
    const auto result = work(x, y);
    graph->capture_end();
    EXPECT_TRUE(same_bits(result, work(x, y))) << name << ", the capture itself";
    for (int i = 0; i < 3; ++i) {
      x.copy_(at::randn(x.sizes()));
      y.copy_(at::randn(y.sizes()));
      const auto wanted = work(x, y);
      graph->replay();
      EXPECT_TRUE(same_bits(result, wanted)) << name << ", replay " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, OpsTest, testing::Values(5, 64, 190));

}  // namespace
}  // namespace anyaccel::backends::cpu
