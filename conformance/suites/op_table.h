// The tensor ops that the kit compares with the host, as data.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace anyaccel::conformance {

/// How an input is generated: uniform numbers, or int64 indices in [low, high).
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
  /// Tolerance in units of the type's epsilon. It is relative to each element or, for `summed` ops,
  /// to the largest element of the result, because terms of a sum may cancel.
  double factor = 1;
  bool summed = false;
  bool backward = false;  ///< also compare the gradients of all inputs except indices
  bool whole = false;     ///< also test int64, exactly
};

const std::vector<Op>& op_table();

}  // namespace anyaccel::conformance
