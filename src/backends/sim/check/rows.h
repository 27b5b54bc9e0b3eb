// The rows of a tensor that an op with an index tensor accesses. Does not use torch.
#pragma once

#include <optional>
#include <vector>

#include "backends/sim/check/region.h"

namespace anyaccel::backends::sim::checking {

/// Along dimension `dim`, the op accesses only the rows that its index tensor names.
class Rows {
 public:
  explicit Rows(int of_dim) : dim(of_dim) {}
  virtual ~Rows() = default;
  /// The rows, sorted and without duplicates; nullopt if they are unknown. May wait until the index
  /// tensor is computed. Thread-safe.
  virtual std::optional<std::vector<std::int64_t>> values() = 0;

  const int dim;
};

/// The region of one row.
Region row_of(const Region& region, int dim, std::int64_t row);

/// True if the rows of the regions have a byte in common. Null stands for all rows. Rows that are
/// unknown or too many to compare count as all rows.
bool overlap(const Region& a, Rows* rows_of_a, const Region& b, Rows* rows_of_b);

}  // namespace anyaccel::backends::sim::checking
