// Splits a program's own torch::nn::Module among several ranks, without changes to its forward.
// Start it with a launcher, for example
//   anyaccel launch --num_accelerators 2 build/sharded_module
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/silu.h>
#include <anyaccel/anyaccel.h>
#include <anyaccel/comm.h>
#include <anyaccel/llm/module_parallel.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <iomanip>
#include <iostream>

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    register_module("gate_proj", gate);
    register_module("up_proj", up);
    register_module("down_proj", down);
  }
  at::Tensor forward(const at::Tensor& x) { return down(at::silu(gate(x)) * up(x)); }
  torch::nn::Linear gate{64, 256}, up{64, 256}, down{256, 64};
};
TORCH_MODULE(Mlp);

struct Net : torch::nn::Module {
  Net() {
    register_module("tokens", tokens);
    register_module("mlp", mlp);
    register_module("score", score);
  }
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor x = tokens(ids);
    return score(x + mlp(x));
  }
  torch::nn::Embedding tokens{100, 64};
  Mlp mlp;
  torch::nn::Linear score{64, 100};
};

int main() try {
  auto group = std::make_shared<anyaccel::comm::ProcessGroup>(anyaccel::comm::init_process_group());
  auto& accelerator = anyaccel::get_accelerator();
  torch::manual_seed(1);  // all ranks start with identical modules, then each keeps its part
  Net net;
  net.to(accelerator.torch_device());
  const auto plan = anyaccel::llm::tensor_parallel(net, group);
  if (group->rank() == 0)
    for (const auto& layer : plan)
      std::cout << layer.name << ": " << anyaccel::llm::to_string(layer.style) << ", "
                << layer.local[0] << " x " << layer.local[1] << " of " << layer.shape[0] << " x "
                << layer.shape[1] << '\n';
  torch::optim::SGD optimizer(net.parameters(), 0.5);
  const at::Tensor ids = at::randint(100, {8, 16}).to(accelerator.torch_device());
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = at::cross_entropy_loss(net.forward(ids).flatten(0, 1), ids.flatten());
    loss.backward();
    optimizer.step();
    if (group->rank() == 0)
      std::cout << "step " << step << ": loss " << std::fixed << std::setprecision(4)
                << loss.item<double>() << '\n';
  }
  group->barrier();
} catch (const anyaccel::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
