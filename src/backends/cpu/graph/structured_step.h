// Fast steps that call torch's structured kernels. Such a kernel has two halves: `meta` checks
// arguments and, for elementwise ops and reductions, lays out the loop; `impl` computes. A capture
// calls `meta` once; a replay calls only `impl`.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/graph/fast_step.h"

namespace anyaccel::backends::cpu {

using OptionalDims = std::optional<std::vector<std::int64_t>>;

// Converts a stored argument to the type that a kernel takes.
inline const at::Tensor& handed(const at::Tensor& value) { return value; }
inline c10::string_view handed(const std::string& value) { return value; }
inline at::OptionalIntArrayRef handed(const OptionalDims& value) {
  return value ? at::OptionalIntArrayRef(*value) : at::OptionalIntArrayRef(std::nullopt);
}
inline at::OptionalTensorRef handed(const std::optional<at::Tensor>& value) {
  return value && value->defined() ? at::OptionalTensorRef(*value) : at::OptionalTensorRef();
}
inline at::OptionalScalarRef handed(const std::optional<at::Scalar>& value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
template <class T>
const T& handed(const T& value) {
  return value;
}

// A structured kernel that writes to given outputs. The signature of the member function is a
// template parameter, because torch 2.11 has an additional parameter (dimension names), which later
// releases dropped.
template <class Kernel, std::size_t kOutputs, class Signature>
class Prepared;

template <class Kernel, std::size_t kOutputs, class... Rest>
class Prepared<Kernel, kOutputs,
               void (at::impl::MetaBase::*)(std::int64_t, at::IntArrayRef, at::IntArrayRef,
                                            at::TensorOptions, Rest...)> : public Kernel {
 public:
  explicit Prepared(c10::ArrayRef<at::Tensor> given) {
    std::copy(given.begin(), given.end(), outputs.begin());
  }

  void set_output_strided(std::int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options, Rest... rest) override {
    const auto& output = outputs[static_cast<std::size_t>(index)];
    // Otherwise, torch would resize the output or compute into another tensor, which a fast step
    // does not support.
    fits = fits && output.sizes() == sizes && (strides.empty() || output.strides() == strides) &&
           output.dtype() == options.dtype();
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
      Kernel::set_output_raw_strided(index, sizes, strides, options, rest...);
    }
  }
  void set_output_raw_strided(std::int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options, Rest... rest) override {
    set_output_strided(index, sizes, {}, options, rest...);
    static_cast<void>(strides);
  }
  const at::Tensor& maybe_get_output(std::int64_t index) override {
    return outputs[static_cast<std::size_t>(index)];
  }

  std::array<at::Tensor, kOutputs> outputs;
  bool fits = true;
};

template <class Kernel, std::size_t kOutputs, class... Args>
class StructuredStep final : public Step {
 public:
  static std::unique_ptr<Step> make(c10::ArrayRef<c10::IValue> args,
                                    c10::ArrayRef<at::Tensor> outputs) {
    if (args.size() < sizeof...(Args) || outputs.size() != kOutputs) return nullptr;
    std::unique_ptr<StructuredStep> step(
        new StructuredStep(args, outputs, std::index_sequence_for<Args...>{}));
    std::apply([&](const auto&... arg) { step->kernel_.meta(handed(arg)...); }, step->args_);
    if (!step->kernel_.fits || !step->reads_in_place(args)) return nullptr;
    step->operands_ = step->operand_count();
    return step;
  }

  void run() override {
    std::apply(
        [&](const auto&... arg) {
          std::apply([&](const auto&... output) { kernel_.impl(handed(arg)..., output...); },
                     kernel_.outputs);
        },
        args_);
  }

  // Some loops drop an operand when they run (scalars of reduced-precision types). Such loops can
  // run only once.
  bool repeatable() const override { return operand_count() == operands_; }

 private:
  template <std::size_t... I>
  StructuredStep(c10::ArrayRef<c10::IValue> args, c10::ArrayRef<at::Tensor> outputs,
                 std::index_sequence<I...>)
      : args_(args[I].template to<Args>()...), kernel_(outputs) {}

  int operand_count() const {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) return kernel_.ntensors();
    return 0;
  }

  // True if the loop accesses the op's own tensors rather than copies of them. Type promotion makes
  // copies, and a replay would then read the values from the capture. Only a number that was
  // wrapped in a tensor may be copied, because it never changes.
  bool reads_in_place(c10::ArrayRef<c10::IValue> args) const {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
      std::vector<const void*> given;
      bool has_number = false;
      for (const auto& tensor : tensors_in(args)) {
        given.push_back(tensor.const_data_ptr());
        has_number = has_number || tensor.unsafeGetTensorImpl()->is_wrapped_number();
      }
      for (const auto& output : kernel_.outputs) given.push_back(output.const_data_ptr());
      for (int i = 0; i < kernel_.ntensors(); ++i) {
        const auto& operand = kernel_.tensor_base(i);
        const bool known =
            std::find(given.begin(), given.end(), operand.const_data_ptr()) != given.end();
        const bool number = has_number && i >= kernel_.noutputs() && operand.numel() == 1;
        if (!known && !number) return false;
      }
    }
    return true;
  }

  int operands_ = 0;
  std::tuple<Args...> args_;
  Prepared<Kernel, kOutputs, decltype(&at::impl::MetaBase::set_output_strided)> kernel_;
};

/// The FastMaker for a structured kernel with one output.
template <class Kernel, class... Args>
constexpr FastMaker structured = &StructuredStep<Kernel, 1, Args...>::make;

}  // namespace anyaccel::backends::cpu
