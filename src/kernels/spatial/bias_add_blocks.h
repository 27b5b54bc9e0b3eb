// Bias addition on CUDA, bitwise equal to bias_add.h. The code is also compiled for the host, where
// the tests run it. Independent of torch and CUDA.
#pragma once

#include <initializer_list>

#include "kernels/optimizer/multi_tensor.h"

namespace anyaccel::ops {

/// The op's arguments. Activations have `size` elements and biases have `channels` elements.
/// `other` and `other_bias` may be null.
struct BiasAddArrays {
  const void* activation;
  const void* bias;
  const void* other;
  const void* other_bias;
  void* out;
  std::int64_t size, channels;
};

/// A pack of n elements that are loaded and stored as one unit.
template <typename T, int n>
struct alignas(n* static_cast<int>(sizeof(T))) BiasPack {
  T at[n];
};

template <typename T>
struct BiasReal {
  using type = float;
};
template <>
struct BiasReal<double> {
  using type = double;
};

/// Processes pack `index`. `size` and `channels` are multiples of n.
template <typename T, int n>
ANYACCEL_ON_BOTH void bias_add_pack(const BiasAddArrays& arrays, std::int64_t index) {
  using Pack = BiasPack<T, n>;
  using Real = typename BiasReal<T>::type;
  const std::int64_t channel = index % (arrays.channels / n);
  const auto at = [](const void* array, std::int64_t i) {
    return static_cast<const Pack*>(array)[i];
  };
  const Pack activation = at(arrays.activation, index);
  const Pack bias = at(arrays.bias, channel);
  const Pack other = arrays.other ? at(arrays.other, index) : Pack{};
  const Pack other_bias = arrays.other_bias ? at(arrays.other_bias, channel) : Pack{};
  Pack out;
  for (int i = 0; i < n; ++i) {
    Real sum = static_cast<Real>(activation.at[i]);
    Real added = static_cast<Real>(bias.at[i]);
    if (arrays.other) sum += static_cast<Real>(other.at[i]);
    if (arrays.other_bias) added += static_cast<Real>(other_bias.at[i]);
    out.at[i] = static_cast<T>(sum + added);
  }
  static_cast<Pack*>(arrays.out)[index] = out;
}

/// Returns the number of elements per pack: as many as fit in 16 bytes, or one if the arrays are
/// not aligned.
inline int bias_pack(const BiasAddArrays& arrays, int element_size) {
  const int n = 16 / element_size;
  std::uintptr_t places = 0;
  for (const void* array : {arrays.activation, arrays.bias, arrays.other, arrays.other_bias,
                            static_cast<const void*>(arrays.out)})
    places |= reinterpret_cast<std::uintptr_t>(array);
  return places % 16 == 0 && arrays.channels % n == 0 ? n : 1;
}

/// CUDA kernel. Returns null on success and the CUDA error message on failure. `element` is ignored
/// if `is_double` is set.
const char* cuda_bias_add(const BiasAddArrays& arrays, Element element, bool is_double,
                          void* stream);

}  // namespace anyaccel::ops
