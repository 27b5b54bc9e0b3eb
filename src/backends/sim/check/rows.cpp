#include "backends/sim/check/rows.h"

#include <algorithm>

namespace anyaccel::backends::sim::checking {

namespace {

constexpr std::size_t kMaxPairs = 1 << 16;

bool same_geometry(const Region& a, const Region& b) {
  return a.low == b.low && a.item == b.item && a.dims == b.dims && a.sizes == b.sizes &&
         a.strides == b.strides;
}

bool common_value(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) return true;
    a[i] < b[j] ? ++i : ++j;
  }
  return false;
}

/// The regions of all rows, or the whole region if the rows are unknown.
std::vector<Region> regions(const Region& region, Rows* rows,
                            const std::optional<std::vector<std::int64_t>>& values) {
  if (rows == nullptr || !values) return {region};
  std::vector<Region> all;
  all.reserve(values->size());
  for (const auto row : *values)
    if (row >= 0 && row < region.sizes[static_cast<std::size_t>(rows->dim)])
      all.push_back(row_of(region, rows->dim, row));
  return all;
}

}  // namespace

Region row_of(const Region& region, int dim, std::int64_t row) {
  Region result = region;
  const auto at = static_cast<std::size_t>(dim);
  result.low += static_cast<std::uintptr_t>(row * region.strides[at]) * region.item;
  result.sizes[at] = 1;
  std::int64_t last = 0;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < region.dims; ++i) {
    last += (result.sizes[i] - 1) * result.strides[i];
    count *= result.sizes[i];
  }
  result.high = result.low + static_cast<std::uintptr_t>(last + 1) * region.item;
  // A row is dense if it spans exactly as many items as it contains.
  result.dense = last + 1 == count;
  return result;
}

bool overlap(const Region& a, Rows* rows_of_a, const Region& b, Rows* rows_of_b) {
  if (!overlap(a, b)) return false;
  const auto usable = [](const Region& region, const Rows* rows) {
    return rows != nullptr && rows->dim >= 0 && rows->dim < region.dims;
  };
  Rows* left = usable(a, rows_of_a) ? rows_of_a : nullptr;
  Rows* right = usable(b, rows_of_b) ? rows_of_b : nullptr;
  const auto left_values = left == nullptr ? std::nullopt : left->values();
  const auto right_values = right == nullptr ? std::nullopt : right->values();
  if (!left_values && !right_values) return true;
  if (left_values && right_values && left->dim == right->dim && same_geometry(a, b))
    return common_value(*left_values, *right_values);
  const auto lefts = regions(a, left, left_values);
  const auto rights = regions(b, right, right_values);
  if (lefts.size() * rights.size() > kMaxPairs) return true;
  return std::any_of(lefts.begin(), lefts.end(), [&](const Region& one) {
    return std::any_of(rights.begin(), rights.end(),
                       [&](const Region& other) { return overlap(one, other); });
  });
}

}  // namespace anyaccel::backends::sim::checking
