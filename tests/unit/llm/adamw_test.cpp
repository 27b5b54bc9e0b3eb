#include "anyaccel/llm/adamw.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "anyaccel/error.h"

namespace anyaccel::llm {
namespace {

// The update of the AdamW paper in double precision, independent of torch's optimizers.
struct Reference {
  std::vector<double> value, m, v;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = 0.1;
  int step = 0;

  void update(const std::vector<double>& gradient, double lr) {
    ++step;
    m.resize(value.size());
    v.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * gradient[i];
      v[i] = beta2 * v[i] + (1 - beta2) * gradient[i] * gradient[i];
      const double m_hat = m[i] / (1 - std::pow(beta1, step));
      const double v_hat = v[i] / (1 - std::pow(beta2, step));
      value[i] -= lr * decay * value[i] + lr * m_hat / (std::sqrt(v_hat) + eps);
    }
  }
};

std::vector<double> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.detach().to(c10::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

at::Tensor parameter(at::IntArrayRef shape) { return at::randn(shape).set_requires_grad(true); }

void follow_the_paper(bool fused) {
  const auto decayed = parameter({7, 5});
  const auto plain = parameter({5});
  AdamW optimizer({decayed, plain},
                  {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .fused = fused},
                  {true, false});
  EXPECT_EQ(optimizer.fused(), fused);
  Reference first, second;
  first.value = values_of(decayed);
  second.value = values_of(plain);
  second.decay = 0;
  for (int i = 1; i <= 50; ++i) {
    const double lr = i <= 10 ? 1e-3 * i : 1e-2 * std::cos(i / 40.0);
    decayed.mutable_grad() = at::randn({7, 5});
    plain.mutable_grad() = at::randn({5});
    optimizer.set_lr(lr);
    optimizer.step();
    first.update(values_of(decayed.grad()), lr);
    second.update(values_of(plain.grad()), lr);
  }
  for (const auto& [tensor, reference] : {std::pair{decayed, &first}, {plain, &second}}) {
    const auto got = values_of(tensor);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], reference->value[i], 2e-6);
  }
  EXPECT_EQ(optimizer.state().step.item<float>(), 50);
}

// Fails if the bias correction, the weight decay, the decay mask or the learning rate schedule
// differs from the paper.
TEST(AdamW, FusedFollowsThePaperUnderASchedule) { follow_the_paper(true); }

// Repeats the test above with the separate ops that are used on devices without a fused kernel.
TEST(AdamW, PlainFollowsThePaperUnderASchedule) { follow_the_paper(false); }

// Fails if a parameter without a gradient is updated.
TEST(AdamW, KeepsParametersWithoutGradient) {
  const auto used = parameter({3}), unused = parameter({3});
  const auto before = unused.detach().clone();
  AdamW optimizer({used, unused});
  used.mutable_grad() = at::ones({3});
  optimizer.step();
  EXPECT_TRUE(unused.equal(before));
}

// Fails if the norm is computed per tensor instead of over all tensors, or gradients below the
// limit are scaled.
TEST(AdamW, ClipsTheGlobalNorm) {
  const auto a = parameter({2}), b = parameter({2});
  AdamW optimizer({a, b});
  a.mutable_grad() = at::full({2}, 3.0);
  b.mutable_grad() = at::full({2}, 4.0);
  EXPECT_NEAR(optimizer.clip_grad_norm(1.0).item<float>(), std::sqrt(50.0), 1e-5);
  EXPECT_NEAR(a.grad()[0].item<float>(), 3 / std::sqrt(50.0), 1e-6);
  EXPECT_NEAR(b.grad()[1].item<float>(), 4 / std::sqrt(50.0), 1e-6);
  const auto before = b.grad().clone();
  optimizer.clip_grad_norm(2.0);
  EXPECT_TRUE(b.grad().equal(before));
}

// Fails if zero_grad() replaces the gradient tensors. A captured graph would then keep writing to
// the old ones.
TEST(AdamW, ZeroGradKeepsAddresses) {
  const auto a = parameter({4});
  AdamW optimizer({a});
  optimizer.zero_grad();
  const void* address = a.grad().data_ptr();
  a.grad().fill_(2);
  optimizer.zero_grad();
  EXPECT_EQ(a.grad().data_ptr(), address);
  EXPECT_TRUE(a.grad().equal(at::zeros_like(a)));
}

// Fails if the saved state is incomplete, so that a resumed run differs from an uninterrupted one.
TEST(AdamW, StateTransfersToAnotherOptimizer) {
  const auto a = parameter({4}), b = parameter({4});
  AdamW first({a}, {.lr = 0.1});
  for (int i = 0; i < 3; ++i) {
    a.mutable_grad() = at::randn({4});
    first.step();
  }
  AdamW second({b}, {.lr = 0.5});
  second.load_state(first.state());
  b.set_data(a.detach().clone());
  a.mutable_grad() = at::randn({4});
  b.mutable_grad() = a.grad().clone();
  first.step();
  second.step();
  EXPECT_TRUE(a.equal(b));
}

// Fails if a state with an invalid tensor is partially loaded, or the error does not name the
// tensor.
TEST(AdamW, RejectsAStateWithTheWrongShape) {
  AdamW optimizer({parameter({4}), parameter({2, 3})}), other({parameter({4}), parameter({3, 2})});
  other.state().step.fill_(9);
  try {
    optimizer.load_state(other.state());
    FAIL() << "a state with the wrong shape was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("exp_avg 1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(optimizer.state().step.item<float>(), 0);
}

// Fails if an out-of-range option, an empty list of parameters or a mask that is too short is
// accepted.
TEST(AdamW, RejectsInvalidArguments) {
  EXPECT_THROW(AdamW({parameter({1})}, {.lr = -1}), Error);
  EXPECT_THROW(AdamW({parameter({1})}, {.beta2 = 1}), Error);
  EXPECT_THROW(AdamW({parameter({1})}, {.eps = std::nan("")}), Error);
  EXPECT_THROW(AdamW(std::vector<at::Tensor>{}), Error);
  EXPECT_THROW(AdamW({parameter({1}), parameter({1})}, {}, {true}), Error);
  EXPECT_THROW(AdamW({at::ones({1}, c10::kLong)}), Error);
  AdamW good({parameter({1})});
  EXPECT_THROW(good.set_lr(std::nan("")), Error);
  EXPECT_THROW(good.clip_grad_norm(0), Error);
}

}  // namespace
}  // namespace anyaccel::llm
