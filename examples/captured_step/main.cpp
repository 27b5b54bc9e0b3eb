// Captures a training step once and replays it. The same code runs on every accelerator that
// supports graphs.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <anyaccel/anyaccel.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <iostream>

namespace {

// The state that changes between steps: data, learning rate, weights and loss. Each tensor keeps
// its address, because a replay uses the captured addresses.
struct Step {
  at::Tensor x, y, learning_rate, weight, loss;

  explicit Step(const at::TensorOptions& options)
      : x(at::empty({32, 64}, options)),
        y(at::empty({32, 1}, options)),
        learning_rate(at::full({}, 0.0, options)),
        weight(at::zeros({64, 1}, options).requires_grad_(true)) {}

  void compute() {
    // If the weight has no gradient, backward() allocates one. During the capture, the new gradient
    // is in the graph's memory.
    weight.mutable_grad().reset();
    const at::Tensor error = at::mse_loss(x.mm(weight), y);
    error.backward();
    loss = error.detach();
    const c10::AutoGradMode no_grad(false);
    weight.sub_(weight.grad().mul(learning_rate));
  }
};

int run() {
  auto& accelerator = anyaccel::get_accelerator();
  const auto options = at::TensorOptions().device(accelerator.torch_device());
  const at::Tensor truth = at::randn({64, 1}, options);
  Step eager(options), captured(options);
  anyaccel::Graph graph = accelerator.create_graph();
  double seconds[2] = {0, 0};
  bool equal = true;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor x = at::randn({32, 64}, options), y = x.mm(truth);
    int side = 0;
    for (Step* step : {&eager, &captured}) {
      // Copy inputs into the tensors that the graph uses. Assigning new tensors would have no
      // effect on it.
      step->x.copy_(x);
      step->y.copy_(y);
      step->learning_rate.fill_(0.5 * (1 - i / 200.0));
      const auto begin = std::chrono::steady_clock::now();
      // A few eager steps before the capture let kernels select their algorithms.
      if (step == &eager || i < 3) {
        step->compute();
      } else {
        if (i == 3) {
          // On some accelerators, capturing also runs the work. Restoring the weights ensures that
          // step 3 happens only once.
          const at::Tensor before = step->weight.detach().clone();
          {
            auto scope = accelerator.capture_to_graph(graph);
            step->compute();
            scope.end();
          }
          step->weight.detach().copy_(before);
        }
        accelerator.replay_graph(graph);
      }
      accelerator.synchronize();
      if (i > 3)
        seconds[side] +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      ++side;
    }
    equal = equal && eager.loss.item<float>() == captured.loss.item<float>();
  }
  std::cout << accelerator.name() << ": loss " << captured.loss.item<float>() << ", losses "
            << (equal ? "equal bit by bit" : "differ") << ", a step takes "
            << seconds[0] / 196 * 1e6 << " us, replayed " << seconds[1] / 196 * 1e6 << " us\n";
  return equal ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const anyaccel::Error& error) {
    // For example, the accelerator does not support graphs. The message contains the reason.
    std::cerr << error.what() << '\n';
    return 1;
  }
}
