// A training step, captured once and replayed: the same code on every accelerator that has graphs.
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

// All that changes between steps is a tensor that keeps its place: data, learning rate, weights,
// loss.
struct Step {
  at::Tensor x, y, learning_rate, weight, loss;

  explicit Step(const at::TensorOptions& options)
      : x(at::empty({32, 64}, options)),
        y(at::empty({32, 1}, options)),
        learning_rate(at::full({}, 0.0, options)),
        weight(at::zeros({64, 1}, options).requires_grad_(true)) {}

  void compute() {
    weight.mutable_grad()
        .reset();  // so that the step makes its gradient anew, in the graph's memory
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
      // Inputs are copied into the tensors that the graph knows, never assigned.
      step->x.copy_(x);
      step->y.copy_(y);
      step->learning_rate.fill_(0.5 * (1 - i / 200.0));
      const auto begin = std::chrono::steady_clock::now();
      if (step == &eager ||
          i < 3) {  // a few steps as they are, so that kernels have chosen their algorithms
        step->compute();
      } else {
        if (i == 3) {
          // Capturing may run the work or only note it: the weights are put back, so that step 3
          // happens once.
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
  } catch (const anyaccel::Error&
               error) {  // for example where the accelerator has no graphs: the message says why
    std::cerr << error.what() << '\n';
    return 1;
  }
}
