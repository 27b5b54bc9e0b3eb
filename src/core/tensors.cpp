// Creates tensors from values.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "anyaccel/accelerator.h"
#include "core/checks.h"

namespace anyaccel {

namespace {

template <typename T>
at::Tensor make(c10::ArrayRef<T> values, c10::ScalarType dtype, const c10::Device& device,
                const char* where) {
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
  // from_blob() takes a mutable pointer, but the values are only read.
  const auto view = at::from_blob(const_cast<T*>(values.data()),
                                  {static_cast<std::int64_t>(values.size())}, options);  // NOLINT
  return translated(
      where, [&] { return view.to(at::TensorOptions().dtype(dtype).device(device), false, true); });
}

}  // namespace

at::Tensor Accelerator::BFloat16Tensor(c10::ArrayRef<double> values) const {
  return make(values, c10::kBFloat16, torch_device(), "BFloat16Tensor");
}
at::Tensor Accelerator::ByteTensor(c10::ArrayRef<std::int64_t> values) const {
  return make(values, c10::kByte, torch_device(), "ByteTensor");
}
at::Tensor Accelerator::DoubleTensor(c10::ArrayRef<double> values) const {
  if (!is_fp64_supported())
    throw Error(ErrorCode::unsupported, "DoubleTensor",
                {.what = "the accelerator '" + name() + "' does not support double precision",
                 .hint = "use FloatTensor"});
  return make(values, c10::kDouble, torch_device(), "DoubleTensor");
}
at::Tensor Accelerator::FloatTensor(c10::ArrayRef<double> values) const {
  return make(values, c10::kFloat, torch_device(), "FloatTensor");
}
at::Tensor Accelerator::HalfTensor(c10::ArrayRef<double> values) const {
  return make(values, c10::kHalf, torch_device(), "HalfTensor");
}
at::Tensor Accelerator::IntTensor(c10::ArrayRef<std::int64_t> values) const {
  return make(values, c10::kInt, torch_device(), "IntTensor");
}
at::Tensor Accelerator::LongTensor(c10::ArrayRef<std::int64_t> values) const {
  return make(values, c10::kLong, torch_device(), "LongTensor");
}

}  // namespace anyaccel
