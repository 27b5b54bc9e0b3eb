// Backend-independent state of an Accelerator.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel {

/// Callbacks to run once the device is initialized, and the compile backend that the program
/// selected.
struct Accelerator::Lazy {
  std::mutex mutex;
  std::atomic<bool> pending{false};
  std::vector<std::function<void()>> callbacks;
  std::string compile_backend;
};

}  // namespace anyaccel
