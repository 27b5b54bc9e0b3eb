#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "anyaccel/sim.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim {
namespace {

class SimRnn : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    anyaccel::sim::install({.memory = 64 << 20});
  }
  /// Runs a two-layer bidirectional recurrent network. Returns the outputs and the gradients of the
  /// input, the initial state and the weights of the first layer.
  static std::vector<at::Tensor> run(std::int64_t gates, bool bias, c10::Device where) {
    at::manual_seed(1);
    const auto leaf = [&](at::IntArrayRef sizes) {
      return at::randn(sizes).mul(0.5).to(where).detach().requires_grad_(true);
    };
    std::vector<at::Tensor> weights;
    for (int layer = 0; layer < 2; ++layer) {
      for (int direction = 0; direction < 2; ++direction) {
        weights.push_back(leaf({gates * 5, layer == 0 ? 3 : 10}));
        weights.push_back(leaf({gates * 5, 5}));
        if (bias) weights.insert(weights.end(), {leaf({gates * 5}), leaf({gates * 5})});
      }
    }
    const auto x = leaf({4, 2, 3}), h = leaf({4, 2, 5}), c = leaf({4, 2, 5});
    at::Tensor loss;
    if (gates == 4) {
      const auto [y, last_h, last_c] =
          at::lstm(x, {h, c}, weights, bias, 2, 0.0, true, true, false);
      loss = y.square().sum() + last_h.sum() + last_c.square().sum();
    } else {
      const auto [y, last_h] = at::gru(x, h, weights, bias, 2, 0.0, true, true, false);
      loss = y.square().sum() + last_h.sum();
    }
    loss.backward();
    std::vector<at::Tensor> out{loss.detach(), x.grad(), h.grad()};
    if (gates == 4) out.push_back(c.grad());
    for (std::size_t i = 0; i < (bias ? 4 : 2); ++i) out.push_back(weights[i].grad());
    for (auto& tensor : out) tensor = tensor.cpu();
    return out;
  }
  static void compare(std::int64_t gates, bool bias) {
    const auto expected = run(gates, bias, c10::kCPU), got = run(gates, bias, runtime().device(0));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(got[i].allclose(expected[i], 1e-5, 1e-6)) << i;
  }
};

// Fails if the outputs or gradients of a recurrent network differ from those of the CPU.
TEST_F(SimRnn, LstmMatchesTheCpu) {
  compare(4, true);
  compare(4, false);
}
TEST_F(SimRnn, GruMatchesTheCpu) {
  compare(3, true);
  compare(3, false);
}

}  // namespace
}  // namespace anyaccel::backends::sim
