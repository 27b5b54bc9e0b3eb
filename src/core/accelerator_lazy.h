// The state of an Accelerator that does not belong to its backend.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel {

/// The callbacks that wait for the device to be initialized, and the compile backend that the
/// program chose.
struct Accelerator::Lazy {
  std::mutex mutex;
  std::atomic<bool> pending{false};
  std::vector<std::function<void()>> callbacks;
  std::string compile_backend;
};

}  // namespace anyaccel
