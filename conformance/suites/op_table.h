// The tensor operations that the kit compares with the host, as data.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace anyaccel::conformance {

/// How an input is made: uniform numbers, or whole numbers in [low, high) of int64 that index something.
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
  /// The error that is allowed, in units of the type's epsilon: relative to the element itself, or, for
  /// `summed` ops, to the largest element of the result, because terms of a sum may cancel.
  double factor = 1;
  bool summed = false;
  bool backward = false;  ///< also compare the gradients of all inputs that are no index
  bool whole = false;     ///< also for int64, exact
};

const std::vector<Op>& op_table();

}  // namespace anyaccel::conformance
