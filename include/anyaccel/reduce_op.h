// Reduction operators for collectives.
#pragma once

namespace anyaccel {

/// How a collective combines the values from the ranks. `avg` requires a floating-point dtype.
enum class ReduceOp { sum, avg, product, min, max };

/// Return the name of an operator, for example "sum". Never null.
constexpr const char* to_string(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::avg: return "avg";
    case ReduceOp::product: return "product";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::sum: break;
  }
  return "sum";
}

}  // namespace anyaccel
