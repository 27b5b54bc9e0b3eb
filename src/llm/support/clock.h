// The clock of training runs.
#pragma once

#include <chrono>

namespace anyaccel::llm {

using Clock = std::chrono::steady_clock;

/// Seconds from `begin` until now.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace anyaccel::llm
