// A worker is a child process that runs cases and reports their results through a pipe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// A worker's report about the accelerator.
struct Subject {
  std::string backend, device;
  int device_count = 0;
};

/// How a worker exited.
struct WorkerEnd {
  std::size_t done = 0;  ///< number of leading cases that have a result
  std::string refused;   ///< reason why the accelerator could not be initialized; empty if it could
  ErrorCode refused_code = ErrorCode::unavailable;
};

/// Runs the body of a case. Exceptions from the body propagate.
using RunCase = std::function<void(const Case&, Accelerator&)>;

/// Forks a worker that runs `cases` in order until one fails. A crash or a timeout is a failure of
/// the running case. Appends to `results`, and stores in `subject` what the worker reports about
/// the accelerator.
WorkerEnd run_worker(const std::vector<const Case*>& cases, const Options& options,
                     const RunCase& run_case, Subject& subject, std::vector<Result>& results);

}  // namespace anyaccel::conformance
