// Runs calls with a time limit, for third-party code that may never return.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/interrupt.h"

namespace anyaccel {

/// Calls `work` on a new thread and returns its result or throws its exception. Throws `timeout`,
/// naming `what`, after `seconds`, and `interrupted`. In both cases the thread continues, because
/// it cannot be stopped, so `work` must own everything that it uses. With 0 seconds, calls `work`
/// directly, without a limit or a thread.
template <typename Result>
Result call_with_limit(const char* where, const std::string& what, long seconds,
                       std::function<Result()> work) {
  if (seconds <= 0) return work();
  std::packaged_task<Result()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    throw_if_interrupted(where);
    if (std::chrono::steady_clock::now() < end) continue;
    throw Error(ErrorCode::timeout, where,
                {.what = what + " took longer than " + std::to_string(seconds) + " s",
                 .hint = "increase ANYACCEL_PLUGIN_TIMEOUT if it needs more time"});
  }
  return result.get();
}

}  // namespace anyaccel
