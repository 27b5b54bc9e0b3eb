// AnyAccel's DataParallel and torch's c10d::Reducer, for data_parallel.bench.py.
// usage: bench_data_parallel RANK SIZE STORE_FILE
//
// DataParallel, the Reducer over "shm" and the Reducer over gloo take turns in the same processes.
// Each trains its own copy of the same model. Rank 0 prints milliseconds per training step.
#include <anyaccel/comm.h>
#include <anyaccel/data_parallel.h>

#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "timing.h"

namespace {

using anyaccel::comm::ProcessGroup;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kWidth = 1024;
constexpr int kSteps = 5, kTurns = 9;
constexpr std::int64_t kBucket = 25 << 20, kFirstBucket = 1 << 20;

/// Ten million parameters.
torch::nn::Sequential make_model() {
  at::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 9; ++i) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::GELU());
  }
  model->push_back(torch::nn::Linear(kWidth, 512));
  return model;
}

/// A model and a method of averaging its gradients.
struct Side {
  torch::nn::Sequential model = make_model();
  std::function<void(const at::Tensor& output)> before_backward = [](const at::Tensor&) {};
  std::function<void()> after_backward = [] {};
  std::shared_ptr<void> method{};  // destroyed before the model
};

/// The constructor's parameters are those of torch 2.13.
std::shared_ptr<c10d::Reducer> make_reducer(const Tensors& parameters,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  auto reversed = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, {static_cast<std::size_t>(kFirstBucket), static_cast<std::size_t>(kBucket)}));
  std::reverse(reversed.begin(), reversed.end());
  return std::make_shared<c10d::Reducer>(
      parameters, reversed, group, std::vector<bool>(parameters.size(), false), kBucket,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
      std::unordered_map<std::size_t, std::string>(), kFirstBucket,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{kFirstBucket, kBucket});
}

Side with_reducer(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  Side side;
  auto reducer = make_reducer(side.model->parameters(), group);
  side.before_backward = [reducer](const at::Tensor&) { reducer->prepare_for_backward({}); };
  side.method = reducer;
  return side;
}

Side with_data_parallel(ProcessGroup& group) {
  Side side;
  auto parallel = std::make_shared<anyaccel::comm::DataParallel>(group, side.model->parameters());
  side.after_backward = [parallel] { parallel->finish(); };
  side.method = parallel;
  return side;
}

/// SGD without momentum. Resets the gradients, as torch's zero_grad() does.
void update(const Tensors& parameters) {
  const c10::AutoGradMode no_grad(false);
  for (const auto& parameter : parameters) {
    parameter.sub_(parameter.grad(), 0.01);
    parameter.mutable_grad().reset();
  }
}

void step(Side& side, const at::Tensor& x) {
  const auto output = side.model->forward(x);
  side.before_backward(output);
  output.square().mean().backward();
  side.after_backward();
  update(side.model->parameters());
}

double milliseconds(Side& side, const at::Tensor& x, int steps) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step(side, x);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() / steps;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  at::set_num_threads(1);
  const int rank = std::atoi(words[1]), size = std::atoi(words[2]);
  const anyaccel::comm::GroupOptions options{.rank = rank, .size = size};
  auto group = anyaccel::comm::init_process_group();
  const auto store = c10::make_intrusive<c10d::FileStore>(words[3], size);
  const auto part = [&](const char* name) {
    return c10::make_intrusive<c10d::PrefixStore>(name, store);
  };
  std::map<std::string, Side> sides;
  sides.emplace("data_parallel", with_data_parallel(group));
  sides.emplace("reducer_shm", with_reducer(anyaccel::comm::make_process_group(
                                   anyaccel::comm::kShm, part("shm"), options)));
  sides.emplace("reducer_gloo",
                with_reducer(anyaccel::comm::make_process_group("gloo", part("gloo"), options)));
  at::manual_seed(rank);
  const auto x = at::randn({32, kWidth});
  std::map<std::string, std::vector<double>> times;
  for (auto& [name, side] : sides) milliseconds(side, x, 3);
  // A side that averages wrongly must not be timed.
  const auto expected = sides.at("reducer_gloo").model->parameters();
  for (auto& [name, side] : sides) {
    const auto parameters = side.model->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!at::allclose(parameters[i], expected[i], 1e-4, 1e-6)) {
        std::fprintf(stderr, "data_parallel: %s differs in parameter %zu\n", name.c_str(), i);
        std::_Exit(1);
      }
  }
  for (int turn = 0; turn < kTurns; ++turn)
    for (auto& [name, side] : sides) times[name].push_back(milliseconds(side, x, kSteps));
  benchmarks::Numbers numbers;
  for (auto& [name, values] : times) {
    std::nth_element(values.begin(), values.begin() + kTurns / 2, values.end());
    numbers.add(name + "_ms", values[kTurns / 2]);
  }
  if (rank == 0) numbers.print();
  group.barrier();
  std::fflush(nullptr);
  std::_Exit(0);
}
