#include "launch/partition.h"

#include <algorithm>
#include <limits>

namespace anyaccel::launch {

namespace {

using Key = int Place::*;
using Keys = std::vector<Key>;

std::vector<CoreIndices> groups_by(const std::vector<Place>& places, const CoreIndices& cores,
                                   Key key) {
  std::vector<CoreIndices> groups;
  for (const std::size_t core : cores) {
    const auto same = [&](const CoreIndices& group) {
      return places[group.front()].*key == places[core].*key;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end())
      groups.push_back({core});
    else
      found->push_back(core);
  }
  return groups;
}

/// Joins neighboring groups into `ranks` parts without splitting a group. The parts are as even as
/// possible: the sum of their squared sizes is minimal. Larger parts come first.
std::vector<CoreIndices> join(const std::vector<CoreIndices>& groups, std::size_t ranks) {
  const std::size_t count = groups.size();
  std::vector<double> before(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i)
    before[i + 1] = before[i] + static_cast<double>(groups[i].size());
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // cost[r][k]: minimal cost of the first k groups in r parts; cut[r][k]: start of the last part.
  std::vector<std::vector<double>> cost(ranks + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<std::size_t>> cut(ranks + 1, std::vector<std::size_t>(count + 1, 0));
  cost[0][0] = 0;
  for (std::size_t r = 1; r <= ranks; ++r)
    for (std::size_t k = r; k <= count; ++k)
      for (std::size_t j = r - 1; j < k; ++j) {
        const double size = before[k] - before[j];
        const double total = cost[r - 1][j] + size * size;
        if (total > cost[r][k]) continue;
        cost[r][k] = total;
        cut[r][k] = j;
      }
  std::vector<CoreIndices> shares(ranks);
  for (std::size_t r = ranks, k = count; r > 0; --r) {
    for (std::size_t i = cut[r][k]; i < k; ++i)
      shares[r - 1].insert(shares[r - 1].end(), groups[i].begin(), groups[i].end());
    k = cut[r][k];
  }
  return shares;
}

std::vector<CoreIndices> deal_by(const std::vector<Place>& places, const CoreIndices& cores,
                                 int ranks, const Keys& keys) {
  if (ranks == 1) return {cores};
  if (keys.empty()) return deal_evenly(cores, ranks);
  const auto groups = groups_by(places, cores, keys.front());
  if (static_cast<std::size_t>(ranks) < groups.size())
    return join(groups, static_cast<std::size_t>(ranks));
  std::vector<int> sizes;
  for (const auto& group : groups) sizes.push_back(static_cast<int>(group.size()));
  const auto counts = apportion(ranks, sizes);
  std::vector<CoreIndices> shares;
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (auto& share : deal_by(places, groups[i], counts[i], {keys.begin() + 1, keys.end()}))
      shares.push_back(std::move(share));
  return shares;
}

/// True if no node has cores in more than one package.
bool nodes_inside_packages(const std::vector<Place>& places, const CoreIndices& cores) {
  for (const auto& group : groups_by(places, cores, &Place::node))
    for (const std::size_t core : group)
      if (places[core].package != places[group.front()].package) return false;
  return true;
}

}  // namespace

std::vector<int> apportion(int count, const std::vector<int>& sizes) {
  std::vector<int> parts(sizes.size(), 1);
  for (int left = count - static_cast<int>(sizes.size()); left > 0; --left) {
    // D'Hondt method. No part exceeds its size: the quotient of a full part is below 1, while that
    // of any other part is at least 1.
    const auto quotient = [&](std::size_t i) {
      return static_cast<double>(sizes[i]) / (parts[i] + 1);
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < sizes.size(); ++i)
      if (quotient(i) > quotient(best)) best = i;
    ++parts[best];
  }
  return parts;
}

std::vector<CoreIndices> deal_evenly(const CoreIndices& cores, int ranks) {
  std::vector<CoreIndices> shares;
  const auto count = static_cast<std::size_t>(ranks);
  auto from = cores.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto to = from + static_cast<std::ptrdiff_t>(cores.size() / count +
                                                       (i < cores.size() % count ? 1 : 0));
    shares.emplace_back(from, to);
    from = to;
  }
  return shares;
}

std::vector<CoreIndices> deal(const std::vector<Place>& places, const CoreIndices& cores,
                              int ranks) {
  // Usually, each node is inside one package. If the firmware reports one node for several
  // packages, consider only nodes.
  const auto all = nodes_inside_packages(places, cores)
                       ? std::vector<Keys>{{&Place::package, &Place::node}, {&Place::package}}
                       : std::vector<Keys>{{&Place::node}};
  for (const Keys& keys : all) {
    auto shares = deal_by(places, cores, ranks, keys);
    std::size_t least = cores.size();
    for (const auto& share : shares) least = std::min(least, share.size());
    if (2 * least * static_cast<std::size_t>(ranks) >= cores.size()) return shares;
  }
  return deal_evenly(cores, ranks);
}

}  // namespace anyaccel::launch
