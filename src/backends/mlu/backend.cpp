#include "backends/mlu/backend.h"

#include "backends/mlu/traits.h"
#include "backends/torch/python_query.h"

namespace anyaccel::backends::mlu {

MluBackend::MluBackend() : TorchBackend(mlu::traits()) {}

DeviceProperties MluBackend::properties(DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.vendor = "Cambricon";
  properties.triton = true;
  return properties;
}

DtypeSupport MluBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  if (dtype != c10::ScalarType::BFloat16) return support;
  // Depends on the chip's generation, which only the vendor's package tells.
  const auto answer = sdk::ask_python("torch.mlu", "is_bf16_supported");
  if (answer.value) support.computable = support.fast = *answer.value;
  return support;
}

}  // namespace anyaccel::backends::mlu
