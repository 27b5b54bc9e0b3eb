// Compares the C++ functions for training with their fallback to torch's ops, which is used for
// tensors that the op does not support. tests/python compares the op with float64 references.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "anyaccel/ops/training.h"

namespace anyaccel {
namespace {

using namespace ops;
using at::Tensor;
using testing::HasSubstr;
using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Compares the results and gradients of two functions.
void compare(const Function& ours, const Function& plain, const std::vector<Tensor>& values) {
  std::vector<std::vector<Tensor>> grads;
  std::vector<std::vector<Tensor>> results;
  for (const Function& function : {ours, plain}) {
    std::vector<Tensor> leaves;
    for (const Tensor& value : values) leaves.push_back(value.clone().requires_grad_());
    results.push_back(function(leaves));
    Tensor sum = at::full({}, 0.0);
    for (const Tensor& result : results.back()) sum = sum + (result * result.cos()).sum();
    sum.backward();
    grads.emplace_back();
    for (const Tensor& leaf : leaves) grads.back().push_back(leaf.grad());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(at::allclose(results[0][i], results[1][i], 1e-4, 1e-4)) << "result " << i;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(at::allclose(grads[0][i], grads[1][i], 1e-3, 1e-3)) << "gradient " << i;
}

Tensor norm_of(const Tensor& x, const Tensor& weight) {
  return x * (x.square().mean(-1, true) + 1e-3).rsqrt() * (weight + 1);
}

TEST(Training, Supported) {
  EXPECT_TRUE(has_training_kernels(at::randn({2})));
  EXPECT_TRUE(has_training_kernels(at::randn({2}).to(at::kBFloat16)));
  EXPECT_FALSE(has_training_kernels(at::arange(2)));
  EXPECT_FALSE(has_training_kernels(Tensor()));
  EXPECT_FALSE(has_training_kernels(at::empty({2}, at::TensorOptions(at::kMeta))));
}

TEST(Training, Norms) {
  compare([](const auto& v) { return std::vector{rms_norm(v[0], v[1], 1e-3, true)}; },
          [](const auto& v) { return std::vector{norm_of(v[0], v[1])}; },
          {at::randn({3, 5, 24}), at::randn({24})});
  compare(
      [](const auto& v) {
        const auto [out, sum] = add_rms_norm(v[0], v[1], v[2], 1e-3, true);
        return std::vector{out, sum};
      },
      [](const auto& v) {
        return std::vector{norm_of(v[0] + v[1], v[2]), v[0] + v[1]};
      },
      {at::randn({7, 24}), at::randn({7, 24}), at::randn({24})});
}

// Fails if the enumeration differs from the op's.
TEST(Training, GatedActivations) {
  const auto plain = [](GateActivation activation, const Tensor& gate) {
    switch (activation) {
      case GateActivation::silu: return gate * gate.sigmoid();
      case GateActivation::gelu: return gate * (1 + (gate * 0.70710678).erf()) / 2;
      case GateActivation::gelu_tanh:
        return gate * (1 + ((gate + gate.pow(3) * 0.044715) * 0.79788456).tanh()) / 2;
      case GateActivation::relu: return gate.clamp_min(0);
      case GateActivation::relu2: break;
    }
    return gate.clamp_min(0).square();
  };
  for (const auto activation :
       {GateActivation::silu, GateActivation::gelu, GateActivation::gelu_tanh, GateActivation::relu,
        GateActivation::relu2})
    compare([&](const auto& v) { return std::vector{gated_activation(v[0], activation)}; },
            [&](const auto& v) {
              return std::vector{plain(activation, v[0].narrow(1, 0, 9)) * v[0].narrow(1, 9, 9)};
            },
            {at::randn({4, 18}) * 2});
}

// Meta tensors use torch's ops, so these shapes come from them.
TEST(Training, FallbackHasTheSameShapes) {
  const auto meta = [](const Tensor& tensor) { return tensor.to(at::kMeta); };
  const Tensor qkv = at::randn({2, 6, 4 * 16}), table = at::rand({6, 8});
  const auto heads = rotary_split(qkv, table, table, 2, 1);
  const auto plain = rotary_split(meta(qkv), meta(table), meta(table), 2, 1);
  EXPECT_EQ(std::get<0>(heads).sizes(), std::get<0>(plain).sizes());
  EXPECT_EQ(std::get<1>(heads).sizes(), std::get<1>(plain).sizes());
  EXPECT_EQ(std::get<2>(heads).sizes(), std::get<2>(plain).sizes());
  EXPECT_EQ(rms_norm(meta(qkv), meta(at::randn({64})), 1e-5).sizes(), qkv.sizes());
  EXPECT_EQ(gated_activation(meta(qkv), GateActivation::gelu).sizes(),
            gated_activation(qkv, GateActivation::gelu).sizes());
}

// A head dimension of 24 uses torch's ops. Zero-padding the same heads to 32 does not change the
// result of the op.
TEST(Training, FallbackOfAttentionAgrees) {
  const Tensor q = at::randn({2, 4, 40, 24}), k = at::randn({2, 2, 40, 24}),
               v = at::randn({2, 2, 40, 24});
  const auto padded = [](const Tensor& heads) {
    Tensor out = at::full({heads.size(0), heads.size(1), heads.size(2), 32}, 0.0);
    out.narrow(3, 0, 24).copy_(heads);
    return out;
  };
  const std::vector<CausalAttentionOptions> all = {
      {.scale = 0.3},
      {.scale = 0.3, .window = 7},
      {.scale = 0.3, .window = 9, .starts = at::tensor(std::vector<std::int64_t>{0, 5, 33})}};
  for (const auto& options : all) {
    const Tensor ours = causal_attention(padded(q), padded(k), padded(v), options).narrow(3, 0, 24);
    EXPECT_TRUE(at::allclose(ours, causal_attention(q, k, v, options), 1e-4, 1e-5));
  }
}

// Weights of a different dtype use torch's ops, which promote them.
TEST(Training, FallbackOfTheNormAgrees) {
  const Tensor x = at::randn({5, 40}), weight = at::randn({40});
  EXPECT_TRUE(at::allclose(rms_norm(x, weight, 1e-5, true),
                           rms_norm(x, weight.to(at::kDouble), 1e-5, true), 1e-5, 1e-5));
}

TEST(Training, LossWithoutLogits) {
  const Tensor labels = at::randint(0, 50, {12}, at::kLong);
  labels[3].fill_(-100);
  compare(
      [&](const auto& v) {
        return std::vector{linear_cross_entropy(v[0], v[1], labels, {.softcap = 5})};
      },
      [&](const auto& v) {
        const Tensor logits = (v[0].matmul(v[1].t()) / 5).tanh() * 5;
        const Tensor losses =
            logits.logsumexp(1) - logits.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
        return std::vector{(losses * labels.ne(-100)).sum() / 11};
      },
      {at::randn({12, 8}), at::randn({50, 8})});
}

// Fails if the factor of a 16-bit loss, here 1/3, is rounded to 16 bits: the gradients of all
// weights would then be too large or too small by up to 0.4%.
TEST(Training, FactorOfTheLossIsNotRounded) {
  const Tensor labels = at::randint(0, 50, {12}, at::kLong), hidden = at::randn({12, 8});
  const auto sum_for = [&](double factor) {
    const Tensor head = at::full({50, 8}, 0.0).to(at::kBFloat16).requires_grad_();
    linear_cross_entropy(hidden.to(at::kBFloat16), head, labels).mul(factor).backward();
    return head.grad().to(at::kDouble).abs().sum().item<double>();
  };
  EXPECT_NEAR(sum_for(1.0 / 3) * 3 / sum_for(1), 1, 5e-4);
}

TEST(Training, Linear) {
  compare([](const auto& v) { return std::vector{training_linear(v[0], v[1], v[2])}; },
          [](const auto& v) { return std::vector{v[0].matmul(v[1].t()) + v[2]}; },
          {at::randn({3, 4, 6}), at::randn({5, 6}), at::randn({5})});
  const Tensor x = at::randn({8, 64}), weight = at::randn({32, 64});
  EXPECT_TRUE(
      at::allclose(training_linear(x.to(at::kBFloat16), weight.to(at::kBFloat16)).to(at::kFloat),
                   x.matmul(weight.t()), 0.05, 0.3));
}

TEST(Training, GatedLinear) {
  compare(
      [](const auto& v) {
        return std::vector{gated_linear(v[0], GateActivation::silu, v[1], v[2])};
      },
      [](const auto& v) {
        const Tensor gate = v[0].narrow(1, 0, 6);
        return std::vector{(gate * gate.sigmoid() * v[0].narrow(1, 6, 6)).matmul(v[1].t()) + v[2]};
      },
      {at::randn({4, 12}), at::randn({5, 6}), at::randn({5})});
}

// Fails if an error of the op is not converted to anyaccel::Error.
TEST(Training, Errors) {
  try {
    linear_cross_entropy(at::randn({1, 2}), at::randn({3, 2}), at::full({1}, 3, at::kLong));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("a label is outside the vocabulary; got 3, want 0 to 2"));
  }
}

}  // namespace
}  // namespace anyaccel
