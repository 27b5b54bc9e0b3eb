// Chooses the faults that `anyaccel sim campaign` injects.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::cli {

/// Number of operations in a run without faults: the maximum over devices and processes.
struct Counts {
  std::uint64_t allocations = 0;
  std::uint64_t launches = 0;
};

struct InjectedFault {
  std::string kind;        ///< one of campaign_kinds()
  std::string faults;      ///< value of SIM_FAULTS
  std::uint64_t seed = 0;  ///< value of SIM_SEED
};

/// "alloc", "kernel", "lost", "slow" and "reorder".
const std::vector<std::string>& campaign_kinds();

/// Generates faults, cycling through the kinds. For each kind except "reorder", the fault occurs
/// once at every operation: first at the first and the last one, then at the others in random
/// order. The order depends only on the seed. "reorder" delays random kernels, which changes the
/// order of work on different streams; each of its faults has its own seed. Not thread-safe.
class FaultPlan {
 public:
  /// `kinds`: non-empty subset of campaign_kinds().
  FaultPlan(const std::vector<std::string>& kinds, const Counts& counts, std::uint64_t seed);
  /// Returns nullopt after all faults have been generated. This never happens with the kind
  /// "reorder" if the program launches kernels.
  std::optional<InjectedFault> next();

 private:
  struct Kind {
    std::string name;
    std::vector<std::uint64_t> places;  ///< in reverse order
    bool endless = false;
  };
  std::vector<Kind> kinds_;
  std::size_t turn_ = 0;
  std::uint64_t seed_;
  std::uint64_t reorders_ = 0;
};

}  // namespace anyaccel::cli
