// What is known of an op's results: for arguments of the same geometry they have the same geometry.
// So an op whose arguments were seen before is queued without waiting for its result.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace anyaccel::backends::sim {

/// Everything in a call that decides the geometry of its results, as numbers.
using CallKey = c10::SmallVector<std::int64_t, 64>;

struct TensorGeometry {
  bool defined = true;
  c10::ScalarType dtype = c10::kFloat;
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  bool conj = false, neg = false;
};

TensorGeometry geometry_of(const at::Tensor& tensor);

/// Results of one call: of a functional op, those that it returns; of others, what their written
/// arguments become.
struct Geometry {
  std::vector<TensorGeometry> tensors;
  /// For lists of tensors: how many belong to each return; -1 for a return that is one tensor.
  std::vector<std::int64_t> lists;
};

/// Null when the call was not seen. Thread-safe.
std::shared_ptr<const Geometry> recall(const CallKey& key);
void remember(const CallKey& key, Geometry geometry);

}  // namespace anyaccel::backends::sim
