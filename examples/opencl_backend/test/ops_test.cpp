// Compares ops on the OpenCL device with the CPU. Run it with OCL_FALLBACK=error, so that an op
// without a kernel fails instead of running on the host.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmv.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zero.h>
#include <anyaccel/anyaccel.h>

#include <cmath>
#include <iostream>
#include <utility>

#include "ops_test.h"

Tensor values(at::IntArrayRef sizes, at::ScalarType type) {
  static auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return at::rand(sizes, generator).mul(4).sub(2).to(type);
}
Tensor labels(std::int64_t count, std::int64_t classes) {
  return at::arange(count, at::kLong).mul(7).remainder(classes);
}

namespace {

struct Test {
  std::string name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> run;
  double tolerance = 1e-5;
};

Tensor positive(at::IntArrayRef sizes) { return values(sizes).abs().add(0.1); }

std::vector<Test> tests() {
  std::vector<Test> all;
  const auto add = [&](std::string name, Tensors inputs, std::function<Tensors(const Tensors&)> run,
                       double tolerance = 1e-5) {
    all.push_back({std::move(name), std::move(inputs), std::move(run), tolerance});
  };
  const auto unary = [&](const char* name, Tensor (*op)(const Tensor&), const Tensor& input) {
    add(name, {input}, [op](const Tensors& in) { return Tensors{op(in[0])}; });
  };
  add("add with broadcasting", {values({5, 1, 7}), values({3, 1})},
      [](const Tensors& in) { return Tensors{at::add(in[0], in[1], 0.5)}; });
  add("sub of integers", {values({9}).mul(10).to(at::kLong), at::arange(9)},
      [](const Tensors& in) { return Tensors{in[0] - in[1]}; });
  add("mul by a scalar", {values({33})}, [](const Tensors& in) { return Tensors{in[0] * 3}; });
  add(
      "mul in bfloat16", {values({33}, at::kBFloat16), values({33}, at::kBFloat16)},
      [](const Tensors& in) { return Tensors{in[0] * in[1]}; }, 1e-2);
  add("div of a transposed tensor", {values({6, 11}), positive({11, 6})},
      [](const Tensors& in) { return Tensors{in[0] / in[1].t()}; });
  add("mul in place of a slice", {values({6, 11})}, [](const Tensors& in) {
    auto copy = in[0].clone();
    copy.slice(1, 2, 9, 2).mul_(2);
    return Tensors{copy};
  });
  unary("sqrt", &at::sqrt, positive({70}));
  unary("rsqrt", &at::rsqrt, positive({70}));
  unary("neg", &at::neg, values({70}));
  unary("exp", &at::exp, values({70}));
  unary("expm1", &at::expm1, values({70}));
  unary("log", &at::log, positive({70}));
  unary("reciprocal", &at::reciprocal, positive({70}));
  unary("tanh", &at::tanh, values({70}));
  unary("sigmoid", &at::sigmoid, values({70}));
  unary("silu", &at::silu, values({70}));
  unary("sin", &at::sin, values({70}));
  unary("cos", &at::cos, values({70}));
  unary("abs", &at::abs, values({70}));
  add("pow", {positive({40})}, [](const Tensors& in) {
    return Tensors{in[0].pow(2), in[0].pow(1.5)};
  });
  add("gelu", {values({40})}, [](const Tensors& in) {
    return Tensors{at::gelu(in[0]), at::gelu(in[0], "tanh")};
  });
  add("gradients of silu and gelu", {values({40}), values({40})}, [](const Tensors& in) {
    return Tensors{at::silu_backward(in[0], in[1]), at::gelu_backward(in[0], in[1])};
  });
  add("addcmul, addcdiv, lerp", {values({40}), values({40}), positive({40})},
      [](const Tensors& in) {
        return Tensors{at::addcmul(in[0], in[1], in[2], 0.3), at::addcdiv(in[0], in[1], in[2], 0.3),
                       at::lerp(in[0], in[1], 0.2), at::lerp(in[0], in[1], 0.8)};
      });
  add("where, clamp_max", {values({40}), values({40}), values({40}).gt(0)}, [](const Tensors& in) {
    return Tensors{at::where(in[2], in[0], in[1]), at::clamp_max(in[0], 0.5)};
  });
  add("fill_, zero_", {values({4, 5})}, [](const Tensors& in) {
    return Tensors{in[0].clone().fill_(1.5), in[0].clone().zero_()};
  });
  add("conversion", {values({4, 50}).mul(50)}, [](const Tensors& in) {
    return Tensors{in[0].to(at::kInt),  in[0].to(at::kBFloat16), in[0].to(at::kHalf),
                   in[0].to(at::kBool), in[0].to(at::kDouble),   in[0].t().contiguous()};
  });
  for (const auto dim : {0, 1, 2})
    add("sum, mean over dimension " + std::to_string(dim), {values({5, 70, 6})},
        [dim](const Tensors& in) {
          return Tensors{in[0].sum(dim), in[0].mean(dim, true),
                         at::linalg_vector_norm(in[0], 2, {dim})};
        });
  add(
      "sum of all", {values({5, 70})}, [](const Tensors& in) { return Tensors{in[0].sum()}; },
      1e-4);
  add("all", {values({5, 70}).gt(-1.95)}, [](const Tensors& in) { return Tensors{in[0].all(1)}; });
  add(
      "mm", {values({37, 50}), values({50, 41})},
      [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; }, 1e-4);
  add(
      "mm of transposed matrices", {values({50, 37}), values({41, 50})},
      [](const Tensors& in) { return Tensors{in[0].t().mm(in[1].t())}; }, 1e-4);
  add(
      "mm in bfloat16", {values({37, 50}, at::kBFloat16), values({50, 41}, at::kBFloat16)},
      [](const Tensors& in) { return Tensors{in[0].mm(in[1])}; }, 2e-1);
  add(
      "bmm, baddbmm", {values({3, 17, 20}), values({3, 20, 33}), values({17, 33})},
      [](const Tensors& in) {
        return Tensors{in[0].bmm(in[1]),
                       at::baddbmm(in[2].expand({3, 17, 33}), in[0], in[1], 0.5, 2)};
      },
      1e-4);
  add(
      "addmm, addmv",
      {values({33}), values({17, 20}), values({20, 33}), values({20}), values({17})},
      [](const Tensors& in) {
        return Tensors{at::addmm(in[0], in[1], in[2], 0.5, 2), at::addmv(in[4], in[1], in[3])};
      },
      1e-4);
  for (const auto dim : {1, 2})
    add("softmax over dimension " + std::to_string(dim), {values({4, 90, 70}), values({4, 90, 70})},
        [dim](const Tensors& in) {
          const auto soft = in[0].softmax(dim), log = in[0].log_softmax(dim);
          return Tensors{soft, log, at::_softmax_backward_data(in[1], soft, dim, at::kFloat),
                         at::_log_softmax_backward_data(in[1], log, dim, at::kFloat)};
        });
  add(
      "layer_norm", {values({9, 70}), values({70}), values({70}), values({9, 70})},
      [](const Tensors& in) {
        const auto [out, mean, rstd] = at::native_layer_norm(in[0], {70}, in[1], in[2], 1e-5);
        const auto [x, weight, bias] = at::native_layer_norm_backward(
            in[3], in[0], {70}, mean, rstd, in[1], in[2], {true, true, true});
        return Tensors{out, mean, rstd, x, weight, bias};
      },
      1e-4);
  add("embedding", {values({30, 70}), labels(50, 30), values({50, 70})}, [](const Tensors& in) {
    return Tensors{at::embedding(in[0], in[1]),
                   at::embedding_dense_backward(in[2], in[1], 30, 3, false)};
  });
  add("cross entropy", {values({50, 30}), labels(50, 30)}, [](const Tensors& in) {
    const auto log = in[0].log_softmax(1);
    const auto [loss, total] = at::nll_loss_forward(log, in[1], {}, at::Reduction::Mean, 7);
    return Tensors{loss, at::nll_loss_backward(at::ones_like(loss), log, in[1], {},
                                               at::Reduction::Mean, 7, total)};
  });
  add("cat, tril, triu", {values({5, 6}), values({5, 3})}, [](const Tensors& in) {
    return Tensors{at::cat({in[0], in[1]}, 1), in[0].tril(1), in[0].triu()};
  });
  add_out_tests(add);
  for (const bool amsgrad : {false, true})
    add(amsgrad ? "AdamW with amsgrad" : "AdamW",
        {values({70}), values({70}), values({70}), positive({70}), positive({70}),
         at::full({}, 3.0)},
        [amsgrad](const Tensors& in) {
          Tensors parameters{in[0].clone()}, gradients{in[1].clone()}, averages{in[2].clone()},
              squares{in[3].clone()}, largest{in[4].clone()}, steps{in[5].clone()};
          at::_fused_adamw_(parameters, gradients, averages, squares, amsgrad ? largest : Tensors{},
                            steps, 0.01, 0.9, 0.99, 0.1, 1e-8, amsgrad, false);
          return Tensors{parameters[0], averages[0], squares[0]};
        });
  return all;
}

/// Returns the largest difference, relative to values above 1.
double difference(const Tensor& got, const Tensor& want) {
  if (got.scalar_type() != want.scalar_type() || got.sizes() != want.sizes()) return INFINITY;
  const auto host = got.cpu().to(at::kDouble), reference = want.to(at::kDouble);
  if (host.numel() == 0) return 0;
  const auto error = (host - reference).abs() / reference.abs().clamp_min(1);
  return error.isnan().any().item<bool>() ? INFINITY : error.max().item<double>();
}

/// Ignores torch's warning that `out=` is resized.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

int main() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard silent(&silence);
  std::cout << std::unitbuf;  // lines before a crash are kept
  auto& accelerator = anyaccel::get_accelerator();
  if (accelerator.torch_device().is_cpu()) {
    std::cout
        << "ops_test: the accelerator is the CPU; set DS_ACCELERATOR and ANYACCEL_PLUGIN_PATH\n";
    return 1;
  }
  int failed = 0, count = 0;
  for (const auto& test : tests()) {
    ++count;
    try {
      const auto want = test.run(test.inputs);
      Tensors there;
      for (const auto& input : test.inputs) there.push_back(input.to(accelerator.torch_device()));
      const auto got = test.run(there);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const auto error = difference(got[i], want[i]);
        if (accelerator.on_accelerator(got[i]) && error <= test.tolerance) continue;
        std::cout << "FAILED " << test.name << ": result " << i << " differs by " << error
                  << ", at most " << test.tolerance << " is expected\n";
        ++failed;
      }
    } catch (const std::exception& error) {
      std::cout << "FAILED " << test.name << ": " << std::string(error.what()).substr(0, 300)
                << '\n';
      ++failed;
    }
  }
  std::cout << accelerator.name() << ": " << count << " tests, " << failed << " failures\n";
  return failed == 0 && count > 0 ? 0 : 1;
}
