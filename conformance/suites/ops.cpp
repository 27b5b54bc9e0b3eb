// Suite "ops": the results of tensor ops, compared with double-precision results on the host, and
// the speed of the ops.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "op_table.h"
#include "support.h"

namespace anyaccel::conformance {

namespace {

using c10::ScalarType;

double epsilon(ScalarType type) {
  switch (type) {
    case c10::kBFloat16: return 0x1p-7;
    case c10::kHalf: return 0x1p-10;
    case c10::kFloat: return 0x1p-23;
    default: return 0x1p-52;
  }
}

/// Below this value, floating-point numbers are equally spaced, so a relative error is meaningless.
double smallest_normal(ScalarType type) {
  switch (type) {
    case c10::kHalf: return 0x1p-14;
    case c10::kDouble: return 0x1p-1022;
    default: return 0x1p-126;
  }
}

/// Generates an input. The numbers are the same on every machine.
at::Tensor made(const Input& input, std::uint64_t seed) {
  auto tensor = at::empty(input.shape, at::TensorOptions().dtype(c10::kDouble));
  auto* data = tensor.mutable_data_ptr<double>();
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    data[i] = input.low + unit * (input.high - input.low);
    if (input.index) data[i] = std::floor(data[i]);
  }
  return input.index ? tensor.to(c10::kLong) : tensor;
}

/// Returns the inputs on the host, rounded to `type`.
Inputs host_inputs(const Op& op, ScalarType type) {
  Inputs inputs;
  for (const auto& input : op.inputs) {
    auto tensor = made(input, inputs.size() + 1);
    if (!input.index && type == c10::kLong) tensor = tensor.mul(100).round();
    inputs.push_back(input.index ? tensor : tensor.to(type));
  }
  return inputs;
}

/// Returns the op's result, or the gradients of its inputs, concatenated into one 1-d tensor.
at::Tensor evaluate(const Op& op, const Inputs& inputs, bool backward) {
  if (!backward) return op.run(inputs);
  Inputs leaves;
  for (const auto& input : inputs)
    leaves.push_back(input.is_floating_point() ? input.detach().clone().set_requires_grad(true)
                                               : input);
  const auto result = op.run(leaves);
  // The weights must differ, because the gradient of the plain sum of a softmax is zero.
  const auto weights = made({result.sizes().vec(), 0.5, 1.5}, 99).to(result.options());
  result.backward(weights);
  Inputs gradients;
  for (const auto& leaf : leaves)
    if (leaf.requires_grad()) gradients.push_back(leaf.grad().reshape({-1}));
  return at::cat(gradients);
}

void compare(const Op& op, const at::Tensor& got, const at::Tensor& want, double tolerance,
             double smallest) {
  expect(got.sizes() == want.sizes(), "the result has the wrong shape");
  const auto x = values(got.reshape({-1})), y = values(want.reshape({-1}));
  double largest = 0;
  for (const double value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double allowed = tolerance * std::max(smallest, op.summed ? largest : std::abs(y[i]));
    if (std::abs(x[i] - y[i]) <= allowed || (std::isnan(x[i]) && std::isnan(y[i])) || x[i] == y[i])
      continue;
    char text[160];
    std::snprintf(text, sizeof(text),
                  "element %zu of %zu; got %.9g, want %.9g, error %.3g, tolerance %.3g", i,
                  x.size(), x[i], y[i], std::abs(x[i] - y[i]), allowed);
    fail(text);
  }
}

void check(const Accelerator& accelerator, const Op& op, ScalarType type, bool backward) {
  if (!accelerator.dtype_support(type).computable)
    skip(std::string(dtype_name(type)) + " is not computable");
  const auto host = host_inputs(op, type);
  Inputs there, reference;
  for (const auto& input : host) {
    there.push_back(to_device(accelerator, input));
    reference.push_back(input.is_floating_point() ? input.to(c10::kDouble) : input);
  }
  const auto got = evaluate(op, there, backward);
  expect(accelerator.on_accelerator(got), "the result is not on the accelerator");
  const bool exact = type == c10::kLong || !got.is_floating_point();
  // A gradient accumulates more rounding errors than the op's result.
  const double factor = op.factor * (backward ? 2 : 1);
  compare(op, got, evaluate(op, reference, backward), exact ? 0 : factor * epsilon(type),
          smallest_normal(type));
}

bool add_case(const Op& op, ScalarType type, Grade grade, bool backward) {
  const auto name = op.name + (backward ? "_backward." : ".") + dtype_name(type);
  const auto run = [&op, type, backward](Accelerator& accelerator) {
    check(accelerator, op, type, backward);
  };
  return register_case({.suite = "ops", .name = name, .grade = grade, .run = run});
}

bool add_cases() {
  for (const auto& op : op_table()) {
    add_case(op, c10::kFloat, Grade::required, false);
    if (op.backward) add_case(op, c10::kFloat, Grade::required, true);
    add_case(op, c10::kBFloat16, Grade::recommended, false);
    add_case(op, c10::kHalf, Grade::optional, false);
    if (op.whole) add_case(op, c10::kLong, Grade::recommended, false);
  }
  return true;
}

/// Returns the time per call in microseconds: the minimum over several rounds.
double microseconds(const std::function<void()>& call, const std::function<void()>& finish) {
  using Clock = std::chrono::steady_clock;
  call();
  finish();
  double least = 1e300;
  for (int round = 0; round < 5; ++round) {
    constexpr int kCalls = 5;
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    finish();
    least = std::min(
        least, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kCalls);
  }
  return least;
}

bool add_speed(const std::string& name, const std::vector<Input>& shapes,
               std::function<at::Tensor(const Inputs&)> run, ScalarType type) {
  const auto measure = [shapes, run, type](Accelerator& accelerator) {
    if (!accelerator.dtype_support(type).computable)
      skip(std::string(dtype_name(type)) + " is not computable");
    Inputs host, there;
    for (const auto& shape : shapes) {
      host.push_back(made(shape, host.size() + 1).to(type));
      there.push_back(to_device(accelerator, host.back()));
    }
    const double device = microseconds([&] { run(there); }, [&] { accelerator.synchronize(); });
    char text[80];
    if (on_host(accelerator)) {
      std::snprintf(text, sizeof(text), "%10.1f us", device);
    } else {
      const double reference = microseconds([&] { run(host); }, [] {});
      std::snprintf(text, sizeof(text), "%10.1f us, host %10.1f us", device, reference);
    }
    note(text);
  };
  return register_speed_case({.suite = "ops",
                              .name = name + "." + dtype_name(type),
                              .grade = Grade::optional,
                              .run = measure});
}

bool add_speed_cases() {
  const Input square{{1024, 1024}}, rows{{4096, 1024}}, row{{1024}};
  for (const auto type : {c10::kFloat, c10::kBFloat16}) {
    add_speed(
        "add", {rows, rows}, [](const Inputs& x) { return x[0].add(x[1]); }, type);
    add_speed(
        "copy", {rows}, [](const Inputs& x) { return x[0].clone(); }, type);
    add_speed(
        "sum", {rows}, [](const Inputs& x) { return x[0].sum(); }, type);
    add_speed(
        "tanh", {rows}, [](const Inputs& x) { return x[0].tanh(); }, type);
    add_speed(
        "softmax", {rows}, [](const Inputs& x) { return at::softmax(x[0], 1); }, type);
    add_speed(
        "layer_norm", {rows, row, row},
        [](const Inputs& x) { return at::layer_norm(x[0], {1024}, x[1], x[2]); }, type);
    add_speed(
        "mm", {square, square}, [](const Inputs& x) { return at::mm(x[0], x[1]); }, type);
    add_speed(
        "mm_one_row", {{{1, 1024}}, square}, [](const Inputs& x) { return at::mm(x[0], x[1]); },
        type);
  }
  return true;
}

[[maybe_unused]] const bool added = add_cases() && add_speed_cases();

}  // namespace

}  // namespace anyaccel::conformance
