// How cores are dealt out to ranks: numbers alone, so that it can be tried on any shape of machine.
// Private to src/launch.
#pragma once

#include <cstddef>
#include <vector>

namespace anyaccel::launch {

/// Where a core is.
struct Place {
  int package = 0;
  int node = 0;
};

/// Indices into a list of places.
using CoreIndices = std::vector<std::size_t>;

/// Deals all of `cores`, which are in the machine's order, to `ranks` ranks (1 to the number of
/// cores), neighbours together: each gets at least one, nobody's is another's. A rank stays inside
/// a NUMA node, or has whole ones where ranks are fewer than nodes, and likewise for packages, as
/// long as that leaves every rank at least half of an even part. Sizes within a node differ by at
/// most one.
std::vector<CoreIndices> deal(const std::vector<Place>& places, const CoreIndices& cores,
                              int ranks);

/// The same without regard to nodes: sizes differ by at most one, the larger ones first.
std::vector<CoreIndices> deal_evenly(const CoreIndices& cores, int ranks);

/// Parts of `count` in proportion to sizes, each at least 1 and none above its size: `count` is
/// from the number of sizes to their sum.
std::vector<int> apportion(int count, const std::vector<int>& sizes);

}  // namespace anyaccel::launch
