#include <algorithm>
#include <map>

#include "launch/plan_parts.h"

namespace anyaccel::launch {

namespace {

/// Returns the rank's last core on the node where it has the most cores.
CoreIndices::iterator last_of_fullest(const Cores& cores, CoreIndices& share) {
  std::map<int, int> counts;
  for (const std::size_t core : share) ++counts[cores.places[core].node];
  auto best = share.end() - 1;
  for (auto core = share.end(); core-- != share.begin();)
    if (counts[cores.places[*core].node] > counts[cores.places[*best].node]) best = core;
  return best;
}

}  // namespace

std::vector<CoreIndices> take_reserved(const Cores& cores, std::vector<CoreIndices>& shares,
                                       int count) {
  std::vector<CoreIndices> taken(shares.size());
  for (; count > 0; --count) {
    std::size_t most = 0;
    for (std::size_t r = 1; r < shares.size(); ++r)
      if (shares[r].size() >= shares[most].size()) most = r;
    if (shares[most].size() < 2) break;
    const auto core = last_of_fullest(cores, shares[most]);
    taken[most].push_back(*core);
    shares[most].erase(core);
  }
  return taken;
}

}  // namespace anyaccel::launch
