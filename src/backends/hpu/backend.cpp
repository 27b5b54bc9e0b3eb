#include "backends/hpu/backend.h"

#include <ATen/Context.h>

#include "backends/hpu/traits.h"
#include "backends/torch/python_query.h"
#include "base/log.h"

namespace anyaccel::backends::hpu {

HpuBackend::HpuBackend() : TorchBackend(hpu::traits()) {
  // As in DeepSpeed. Otherwise, the graph compiler may choose a different summation order in each
  // recipe.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

DtypeSupport HpuBackend::dtype_support(DeviceIndex index, c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  if (dtype == c10::ScalarType::BFloat16)
    return {.storable = true, .computable = true, .fast = true, .reducible = true};
  if (dtype != c10::ScalarType::Half) return support;
  // The first generation does not support fp16, and only the vendor's Python package reports the
  // generation.
  const auto answer =
      sdk::ask_python("habana_frameworks.torch.utils.experimental", "_is_fp16_supported");
  support.computable = support.fast = support.reducible = answer.value.value_or(false);
  if (!answer.value)
    log_once(LogLevel::info, "hpu fp16", "hpu: treating fp16 as unsupported: " + answer.reason);
  return support;
}

// A no-op, because the bridge keeps its memory in one pool.
void HpuBackend::empty_cache() {}

}  // namespace anyaccel::backends::hpu
