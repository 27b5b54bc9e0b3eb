#include "backends/sdaa/backend.h"

#include "backends/sdaa/traits.h"
#include "backends/torch/python_query.h"

namespace anyaccel::backends::sdaa {

SdaaBackend::SdaaBackend() : TorchBackend(sdaa::traits()) {}

DeviceProperties SdaaBackend::properties(DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.vendor = "Tecorigin";
  return properties;
}

DtypeSupport SdaaBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  if (dtype != c10::ScalarType::BFloat16) return support;
  // Depends on the chip's generation, which only the vendor's package tells.
  const auto answer = sdk::ask_python("torch.sdaa", "is_bf16_supported");
  if (answer.value) support.computable = support.fast = *answer.value;
  return support;
}

}  // namespace anyaccel::backends::sdaa
