#include "backends/sim/call.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

namespace anyaccel::backends::sim {

namespace {

// Markers in a key, so that arguments of different kinds never have the same encoding.
enum Mark : std::int64_t {
  kNothing = -100,
  kUndefined,
  kDevice,
  kHost,
  kInteger,
  kReal,
  kBoolean,
  kComplex,
  kList,
  kOther
};

std::int64_t bits(double value) {
  std::int64_t result = 0;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

/// Copies a host scalar, because the program may change it before the kernel runs.
at::Tensor kept(const at::Tensor& scalar) {
  // A wrapped number is created only for this call.
  if (scalar.unsafeGetTensorImpl()->is_wrapped_number()) return without_object(scalar);
  at::Tensor copy(at::detail::empty_cpu({}, scalar.scalar_type()));
  std::memcpy(copy.mutable_data_ptr(), scalar.const_data_ptr(), scalar.itemsize());
  return copy;
}

}  // namespace

void Call::use_device(int index) {
  TORCH_CHECK(device_ < 0 || device_ == index,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              runtime().device(device_), " and ", runtime().device(index), "! (when calling ",
              info_.name, ")");
  device_ = index;
}

Call::Call(const OpInfo& info, c10::ArrayRef<c10::IValue> arguments)
    : info_(info), arguments_(arguments) {
  key_.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&info)));
  for (std::size_t i = 0; i < arguments.size(); ++i) look_at(arguments[i], i);
  if (device_ < 0) device_ = sim::current_device();
  key_.push_back(device_);
}

void Call::look_at_tensor(const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined()) {
    key_.push_back(kUndefined);
    return;
  }
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (on_device(tensor)) {
    use_device(tensor.device().index());
    key_.push_back(kDevice);
    if (is_written) written_.push_back(tensor);
  } else {
    const bool scalar = tensor.device().is_cpu() && tensor.dim() == 0 && !is_written;
    TORCH_CHECK(scalar || (tensor.device().is_cpu() && info_.takes_host_tensors && !is_written),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                runtime().device(std::max(device_, 0)), " and ", tensor.device(),
                "! (when calling ", info_.name, ")");
    key_.push_back(kHost);
    if (!scalar) known_by_key_ = false;
  }
  key_.push_back(static_cast<std::int64_t>(tensor.scalar_type()) |
                 (impl->is_wrapped_number() ? 256 : 0) | (tensor.dim() << 10));
  for (const auto size : tensor.sizes()) key_.push_back(size);
  for (const auto stride : tensor.strides()) key_.push_back(stride);
}

void Call::look_at(const c10::IValue& value, std::size_t index) {
  const bool is_written = info_.written[index];
  const bool by_value = info_.by_value[index];
  if (value.isTensor()) {
    look_at_tensor(value.toTensor(), is_written);
  } else if (value.isNone()) {
    key_.push_back(kNothing);
  } else if (value.isInt()) {
    key_.push_back(kInteger);
    if (by_value) key_.push_back(value.toInt());
  } else if (value.isDouble()) {
    key_.push_back(kReal);
    if (by_value) key_.push_back(bits(value.toDouble()));
  } else if (value.isBool()) {
    key_.push_back(kBoolean);
    key_.push_back(value.toBool());
  } else if (value.isComplexDouble()) {
    key_.push_back(kComplex);
  } else if (value.isDevice()) {
    if (value.toDevice().type() == runtime().type && device_ < 0)
      use_device(value.toDevice().has_index() ? value.toDevice().index() : sim::current_device());
    key_.push_back(kOther);
  } else if (value.isString()) {
    key_.push_back(kOther);
    for (const char c : value.toStringRef()) key_.push_back(c);
    key_.push_back(kOther);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key_.push_back(kList);
    key_.push_back(static_cast<std::int64_t>(list.size()));
    for (const auto& element : list) look_at(element, index);
  } else if (value.isGenerator()) {
    key_.push_back(kOther);
  } else {
    known_by_key_ = false;
  }
}

template <typename Convert>
torch::jit::Stack Call::converted(std::vector<at::Tensor>& written, Convert convert) const {
  torch::jit::Stack stack;
  stack.reserve(arguments_.size() + 4);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const auto& value = arguments_[i];
    const auto one = [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      if (!on_device(tensor)) return tensor.dim() == 0 ? kept(tensor) : without_object(tensor);
      auto result = convert(tensor);
      if (info_.written[i]) written.push_back(result);
      return result;
    };
    if (value.isTensor()) {
      stack.emplace_back(one(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& each : value.toListRef()) list.push_back(one(each.toTensor()));
      stack.emplace_back(std::move(list));
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& each : value.toListRef())
        list.push_back(each.isTensor() && each.toTensor().defined()
                           ? std::optional<at::Tensor>(one(each.toTensor()))
                           : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (value.isDevice() && value.toDevice().type() == runtime().type) {
      stack.emplace_back(c10::Device(c10::kCPU));
    } else {
      stack.push_back(value);
    }
  }
  return stack;
}

torch::jit::Stack Call::host_arguments(std::vector<at::Tensor>& aliases) const {
  return converted(aliases, [](const at::Tensor& tensor) { return alias(tensor); });
}

torch::jit::Stack Call::meta_arguments(std::vector<at::Tensor>& metas) const {
  auto stack = converted(metas, [](const at::Tensor& tensor) {
    return at::Tensor(
        at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  });
  for (auto& value : stack)
    if (value.isDevice()) value = c10::Device(c10::kMeta);
  // torch's Python meta kernels require the first argument to be on the result's device, even if it
  // is a host scalar. They receive wrapped numbers as Python numbers.
  if (!stack.empty() && stack[0].isTensor()) {
    const auto first = stack[0].toTensor();
    if (first.defined() && first.is_cpu() && first.dim() == 0 &&
        !first.unsafeGetTensorImpl()->is_wrapped_number())
      stack[0] = at::Tensor(at::detail::empty_strided_meta({}, {}, first.scalar_type()));
  }
  return stack;
}

std::vector<Operand> Call::operands() const {
  std::vector<Operand> all;
  const auto add = [&](const at::Tensor& tensor, bool is_written) {
    if (on_device(tensor)) all.push_back(operand(tensor, is_written));
  };
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const auto& value = arguments_[i];
    if (value.isTensor()) {
      add(value.toTensor(), info_.written[i]);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const auto& each : value.toListRef())
        if (each.isTensor()) add(each.toTensor(), info_.written[i]);
    }
  }
  return all;
}

}  // namespace anyaccel::backends::sim
