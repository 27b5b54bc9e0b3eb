// Puts a rank's plan into force in the process that becomes the rank.
#pragma once

#include <string>

#include "launch/plan.h"

namespace anyaccel::launch {

/// What the operating system refused, each by itself: "" where it obeyed or nothing was asked.
struct BindResult {
  std::string cores_refused;   ///< a sentence for a warning
  std::string memory_refused;  ///< a sentence for a warning; containers often forbid memory
                               ///< policies (EPERM)
};

/// Binds the calling thread, and with it what it starts by fork and exec, to the rank's cores and
/// its memory to the rank's nodes. Never throws and never ends the process: a rank that could not
/// be bound runs, and the reason is told. It allocates, so it belongs into a program of its own
/// between fork and exec where the parent has several threads.
BindResult bind_this_process(const RankPlan& plan) noexcept;

}  // namespace anyaccel::launch
