// A cache of the geometry of ops' results. The geometry depends only on the key, so a call with a
// known key is queued without waiting for its result.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace anyaccel::backends::sim {

/// Everything in a call that determines the geometry of its results, as numbers.
using CallKey = c10::SmallVector<std::int64_t, 64>;

struct TensorGeometry {
  bool defined = true;
  c10::ScalarType dtype = c10::kFloat;
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  bool conj = false, neg = false;
};

TensorGeometry geometry_of(const at::Tensor& tensor);

/// Geometry of the results of one call: first the written arguments, as the call changes them, then
/// the new results.
struct Geometry {
  std::vector<TensorGeometry> tensors;
  /// For each new result: the number of tensors in a list, or -1 for a single tensor.
  std::vector<std::int64_t> lists;
};

/// Returns null if the call is not known. Thread-safe.
std::shared_ptr<const Geometry> recall(const CallKey& key);
void remember(const CallKey& key, Geometry geometry);

}  // namespace anyaccel::backends::sim
