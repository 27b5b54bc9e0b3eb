#include "launch/bind.h"

#include <exception>
#include <functional>

#include "topology/bind.h"

namespace anyaccel::launch {

namespace {

/// Runs `act`, which returns an error message, or "" on success. An exception also counts as an
/// error. Returns a warning, or "" if there was no error.
std::string refusal(const std::string& what, const std::function<std::string()>& act) {
  std::string why;
  try {
    why = act();
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.empty() ? "" : what + ": " + why;
}

}  // namespace

BindResult bind_this_process(const RankPlan& plan) noexcept {
  BindResult result;
  try {
    const auto rank = "rank " + std::to_string(plan.local_rank) + " of this host ";
    if (!plan.cores.empty())
      result.cores_refused =
          refusal(rank + "is not bound to CPUs " + topology::format_cpu_list(plan.cores),
                  [&] { return topology::bind_cpus(plan.cores); });
    if (plan.policy != MemoryPolicy::none)
      result.memory_refused = refusal(
          rank + "allocates memory on any NUMA node instead of " +
              (plan.policy == MemoryPolicy::bind ? "only on nodes " : "preferring nodes ") +
              topology::format_cpu_list(plan.memory_nodes),
          [&] {
            return topology::bind_memory(plan.memory_nodes, plan.policy == MemoryPolicy::bind);
          });
  } catch (const std::exception&) {
    // There is not enough memory for the warning. Run the rank without it.
  }
  return result;
}

}  // namespace anyaccel::launch
