#include "backends/sim/check/region.h"

#include <algorithm>
#include <vector>

namespace anyaccel::backends::sim::checking {

namespace {

using Run = std::pair<std::uintptr_t, std::uintptr_t>;
constexpr std::int64_t kMaxRuns = 1 << 18;

/// Finds the contiguous runs of bytes, sorted by address. Returns false if there are too many.
bool runs_of(const Region& region, std::vector<Run>& runs) {
  if (region.dense) {
    runs.emplace_back(region.low, region.high);
    return true;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride and size; largest stride first
  for (int i = 0; i < region.dims; ++i)
    if (region.sizes[i] > 1 && region.strides[i] != 0)
      dims.emplace_back(region.strides[i], region.sizes[i]);
  std::sort(dims.rbegin(), dims.rend());
  std::int64_t length = 1;
  while (!dims.empty() && dims.back().first == length) {
    length *= dims.back().second;
    dims.pop_back();
  }
  std::int64_t count = 1;
  for (const auto& [stride, size] : dims) {
    if (size > kMaxRuns / count) return false;
    count *= size;
  }
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) offset += at[d] * dims[d].first;
    const auto start = region.low + static_cast<std::uintptr_t>(offset) * region.item;
    runs.emplace_back(start, start + static_cast<std::uintptr_t>(length) * region.item);
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d].second) break;
      at[d] = 0;
    }
  }
  std::sort(runs.begin(), runs.end());
  return true;
}

}  // namespace

bool overlap(const Region& a, const Region& b) {
  if (a.low >= b.high || b.low >= a.high) return false;
  if (a.dense && b.dense) return true;
  std::vector<Run> left, right;
  if (!runs_of(a, left) || !runs_of(b, right)) return true;
  for (std::size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    if (left[i].first < right[j].second && right[j].first < left[i].second) return true;
    if (left[i].second < right[j].second)
      ++i;
    else
      ++j;
  }
  return false;
}

std::string shape_text(const Region& region) {
  if (*region.type == '\0') return std::to_string(region.high - region.low) + " bytes";
  std::string text = std::string(region.type) + " [";
  for (int i = 0; i < region.dims; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(region.sizes[i]);
  return text + "]";
}

}  // namespace anyaccel::backends::sim::checking
