// Optimizers that Python identifies by number, as in DeepSpeed: create_x(id, ...) and
// destroy_x(id).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "ops/shared/check.h"

namespace anyaccel::ops {

/// For optimizers that receive all their hyperparameters with each step.
struct KeepsNothing {};

/// Map from ids to optimizers. Thread-safe. `Kept` is the data that an optimizer keeps between
/// steps.
template <typename Kept>
class OptimizerIds {
 public:
  /// Replaces an existing optimizer with the same id.
  void put(std::int64_t id, Kept kept) {
    const std::lock_guard lock(mutex_);
    kept_[id] = kept;
  }
  void remove(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    kept_.erase(id);
  }
  Kept get(const char* where, std::int64_t id) {
    const std::lock_guard lock(mutex_);
    const auto place = kept_.find(id);
    if (place == kept_.end())
      fail_argument(where, "unknown optimizer id", std::to_string(id),
                    "the id of a created optimizer");
    return place->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Kept> kept_;
};

}  // namespace anyaccel::ops
