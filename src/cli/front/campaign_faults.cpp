#include "cli/front/campaign_faults.h"

#include <algorithm>
#include <numeric>

namespace anyaccel::cli {

namespace {

/// Maximum number of places to try; more than a campaign can try in a day.
constexpr std::uint64_t kMaxPlaces = 1'000'000;

/// Returns the numbers 1 to `count` in reverse order of use. The order of use is the first, the
/// last, then the others in random order.
std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> places(std::min(count, kMaxPlaces));
  std::iota(places.begin(), places.end(), 1);
  if (places.size() > 1) std::swap(places[1], places.back());
  std::mt19937_64 random(seed);
  // std::shuffle() differs between standard libraries.
  for (std::size_t i = places.size(); i > 3; --i)
    std::swap(places[i - 1], places[2 + random() % (i - 2)]);
  std::reverse(places.begin(), places.end());
  return places;
}

std::string fault_of(const std::string& kind, std::uint64_t place) {
  if (kind == "reorder") return "slow=300us%0.2";
  return (kind == "slow" ? "slow=50ms@" : kind + "@") + std::to_string(place);
}

}  // namespace

const std::vector<std::string>& campaign_kinds() {
  static const std::vector<std::string> kinds{"alloc", "kernel", "lost", "slow", "reorder"};
  return kinds;
}

FaultPlan::FaultPlan(const std::vector<std::string>& kinds, const Counts& counts,
                     std::uint64_t seed)
    : seed_(seed) {
  for (const auto& kind : kinds) {
    const auto count = kind == "alloc" ? counts.allocations : counts.launches;
    if (count == 0) continue;
    const bool endless = kind == "reorder";
    kinds_.push_back(
        {kind, endless ? std::vector<std::uint64_t>() : shuffled(count, seed), endless});
  }
}

std::optional<InjectedFault> FaultPlan::next() {
  for (std::size_t tried = 0; tried < kinds_.size(); ++tried) {
    auto& kind = kinds_[turn_++ % kinds_.size()];
    if (kind.endless) return InjectedFault{kind.name, fault_of(kind.name, 0), seed_ + reorders_++};
    if (kind.places.empty()) continue;
    const auto place = kind.places.back();
    kind.places.pop_back();
    return InjectedFault{kind.name, fault_of(kind.name, place), seed_};
  }
  return std::nullopt;
}

}  // namespace anyaccel::cli
