// Applies a rank's plan to the process that becomes the rank.
#pragma once

#include <string>

#include "launch/plan.h"

namespace anyaccel::launch {

/// Warnings about the parts of the binding that failed; "" for a part that succeeded or was not
/// requested.
struct BindResult {
  std::string cores_refused;   ///< one sentence
  std::string memory_refused;  ///< one sentence; containers often forbid memory policies (EPERM)
};

/// Binds the calling thread to the rank's cores and its memory to the rank's nodes. Programs that
/// the thread starts inherit both. Never throws: a rank that cannot be bound still runs, and the
/// result contains the reason. Allocates memory, so it must not be called between fork and exec if
/// the parent has several threads.
BindResult bind_this_process(const RankPlan& plan) noexcept;

}  // namespace anyaccel::launch
