// Trains like ZeRO-Offload: the model is on the accelerator in bfloat16. Its float32 weights and
// both of Adam's states are in pinned host memory, where CPUAdam performs the step. For each
// parameter, the device holds a 2-byte weight and its gradient, and the host holds 16 bytes.
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/ops/cpu_adam.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <iostream>
#include <vector>

namespace {

constexpr int kSteps = 300;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The float32 tensors that CPUAdam updates, and the bfloat16 weights that the model computes with.
class Weights {
 public:
  explicit Weights(anyaccel::Accelerator& accelerator) : accelerator_(accelerator) {}

  void add(const at::Tensor& initial) {
    masters.push_back(accelerator_.pin_memory(initial));
    for (auto* list : {&grads, &exp_avg, &exp_avg_sq})
      list->push_back(accelerator_.pin_memory(at::zeros_like(initial)));
    on_device.push_back(
        initial.to(at::TensorOptions(accelerator_.torch_device()).dtype(at::kBFloat16))
            .requires_grad_(true));
  }
  void gradients_to_host() {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      grads[i].copy_(on_device[i].grad(), /*non_blocking=*/true);
      on_device[i].mutable_grad().reset();
    }
    accelerator_.synchronize();  // the host reads the gradients next
  }
  void weights_to_device() {
    const c10::AutoGradMode no_grad(false);
    // The copies run in stream order, so the next forward pass uses the new weights. The next step
    // changes `masters` only after synchronize().
    for (std::size_t i = 0; i < masters.size(); ++i)
      on_device[i].copy_(masters[i], /*non_blocking=*/true);
  }

  std::vector<at::Tensor> masters, grads, exp_avg, exp_avg_sq;  // pinned, float32
  std::vector<at::Tensor> on_device;                            // bfloat16

 private:
  anyaccel::Accelerator& accelerator_;
};

at::Tensor network(const at::Tensor& x, const std::vector<at::Tensor>& w) {
  return at::gelu(x.mm(w[0]).add(w[1])).mm(w[2]).add(w[3]);
}

std::vector<at::Tensor> random_network(double scale) {
  return {at::randn({32, 128}).mul(scale / 6), at::zeros({128}),
          at::randn({128, 1}).mul(scale / 11), at::zeros({1})};
}

int run() {
  auto& accelerator = anyaccel::get_accelerator();
  const auto options = at::TensorOptions(accelerator.torch_device()).dtype(at::kBFloat16);
  const auto teacher = random_network(2);
  Weights weights(accelerator);
  for (const auto& initial : random_network(1)) weights.add(initial);
  anyaccel::ops::CPUAdam adam({.lr = 3e-3, .weight_decay = 1e-4});

  double first = 0, last = 0, in_adam = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = at::randn({256, 32}), y = network(x, teacher);
    const at::Tensor loss =
        network(x.to(options), weights.on_device).sub(y.to(options)).square().mean();
    loss.backward();
    weights.gradients_to_host();
    const auto begin_adam = std::chrono::steady_clock::now();
    adam.options().lr = 3e-3 * (1 - 0.9 * step / kSteps);
    adam.step(weights.masters, weights.grads, weights.exp_avg, weights.exp_avg_sq);
    in_adam += seconds_since(begin_adam);
    weights.weights_to_device();
    if (step < 10) first += loss.item<float>() / 10;
    if (step >= kSteps - 10) last += loss.item<float>() / 10;
  }
  std::cout << accelerator.name() << ": loss " << first << " to " << last << " in " << adam.steps()
            << " steps of " << seconds_since(begin) / kSteps * 1e6 << " us, "
            << in_adam / kSteps * 1e6 << " us of them in CPUAdam\n";
  return last < first / 5 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const anyaccel::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
