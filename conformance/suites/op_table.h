// A table of the tensor ops that the kit compares with the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace anyaccel::conformance {

/// Describes how to generate an input: uniform random numbers, or int64 indices, in [low, high).
struct Input {
  std::vector<std::int64_t> shape;
  double low = -2, high = 2;
  bool index = false;
};

using Inputs = std::vector<at::Tensor>;

struct Op {
  std::string name;
  std::vector<Input> inputs;
  std::function<at::Tensor(const Inputs&)> run;
  /// Tolerance in units of the dtype's epsilon. It is relative to each element. For `summed` ops,
  /// it is relative to the largest element of the result, because the terms of a sum may cancel.
  double factor = 1;
  bool summed = false;
  bool backward = false;  ///< also compare the gradients of all inputs except indices
  bool whole = false;     ///< also test int64, with exact results
};

const std::vector<Op>& op_table();

}  // namespace anyaccel::conformance
