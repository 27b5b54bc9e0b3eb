// Conversion of elements whose type is known only at run time. `Types` provides the 16-bit types:
// the CUDA types, or substitutes in tests.
#pragma once

#include "kernels/common/host_device.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

template <typename Types>
ANYACCEL_ON_BOTH float value_at(const Values& values, std::int64_t i) {
  if (values.type == Element::f32) return static_cast<const float*>(values.data)[i];
  if (values.type == Element::bf16)
    return static_cast<float>(static_cast<const typename Types::Bf16*>(values.data)[i]);
  return static_cast<float>(static_cast<const typename Types::Fp16*>(values.data)[i]);
}

/// Returns element i of the bias, or 0 if there is no bias.
template <typename Types>
ANYACCEL_ON_BOTH float bias_at(const Values& values, std::int64_t i) {
  return values.data ? value_at<Types>(values, i) : 0.0F;
}

template <typename Types>
ANYACCEL_ON_BOTH void set_value(const Values& values, std::int64_t i, float value) {
  if (values.type == Element::f32)
    static_cast<float*>(values.data)[i] = value;
  else if (values.type == Element::bf16)
    static_cast<typename Types::Bf16*>(values.data)[i] = static_cast<typename Types::Bf16>(value);
  else
    static_cast<typename Types::Fp16*>(values.data)[i] = static_cast<typename Types::Fp16>(value);
}

}  // namespace anyaccel::ops
