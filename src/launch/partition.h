// Distributes cores to ranks. All functions are pure, so that tests can cover any machine. Internal
// to src/launch.
#pragma once

#include <cstddef>
#include <vector>

namespace anyaccel::launch {

/// Location of a core.
struct Place {
  int package = 0;
  int node = 0;
};

/// Indices into a list of places.
using CoreIndices = std::vector<std::size_t>;

/// Distributes all of `cores`, which are in the machine's order, to `ranks` ranks (1 to the number
/// of cores). Each rank gets at least one core, neighboring cores stay together, and no core is
/// used by two ranks. A rank stays inside a NUMA node, or gets whole nodes if there are fewer ranks
/// than nodes, and likewise for packages, as long as every rank gets at least half of the average
/// number of cores. Within a node, the numbers of cores differ by at most one.
std::vector<CoreIndices> deal(const std::vector<Place>& places, const CoreIndices& cores,
                              int ranks);

/// Like deal(), but ignores nodes and packages. The numbers of cores differ by at most one, and the
/// ranks with more cores come first.
std::vector<CoreIndices> deal_evenly(const CoreIndices& cores, int ranks);

/// Splits `count` into parts proportional to `sizes`. Each part is at least 1 and at most the
/// corresponding size. `count` must be between the number of sizes and their sum.
std::vector<int> apportion(int count, const std::vector<int>& sizes);

}  // namespace anyaccel::launch
