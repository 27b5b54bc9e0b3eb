// One child process that runs cases and says over a pipe how they ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// What a worker found out about the accelerator.
struct Subject {
  std::string backend, device;
  int device_count = 0;
};

/// How a worker ended.
struct WorkerEnd {
  std::size_t done = 0;  ///< cases that have a result, counted from the first
  std::string refused;   ///< why the accelerator cannot be had; empty when it could
  ErrorCode refused_code = ErrorCode::unavailable;
};

/// What the body of a worker does with one case: throws as cases do.
using RunCase = std::function<void(const Case&, Accelerator&)>;

/// Forks a worker for `cases`, in order, until one of them fails. A crash or timeout fails the case that ran. Results go to
/// `results`, what the worker knows of the accelerator to `subject`.
WorkerEnd run_worker(const std::vector<const Case*>& cases, const Options& options, const RunCase& run_case,
                     Subject& subject, std::vector<Result>& results);

}  // namespace anyaccel::conformance
