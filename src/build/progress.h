// Progress of a long build: one line on a terminal, and periodic log lines elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "build/lock.h"

namespace anyaccel::build {

/// Not thread-safe.
class Progress {
 public:
  explicit Progress(std::string name,
                    std::chrono::milliseconds report_after = std::chrono::seconds(20))
      : name_(std::move(name)), report_after_(report_after) {}
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `text`. May be called often; most calls write nothing.
  void show(const std::string& text);
  /// Like show(), but for programs that may hang. Without a terminal, logs a warning after
  /// `report_after` and then every minute. Throws `timeout` after ANYACCEL_OP_BUILD_TIMEOUT
  /// seconds.
  void work_on(const std::string& text);
  /// Like show(), but while waiting for a lock. Logs a warning that names the holder after 2
  /// seconds and then every minute. Throws `timeout` after ANYACCEL_OP_WAIT seconds.
  void wait_for(const FileLock::Holder& holder);

 private:
  std::chrono::milliseconds passed() const;
  std::string name_;
  std::chrono::milliseconds report_after_;
  std::string shown_;
  long told_ = 0;  ///< number of warnings logged so far
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Returns the number of compilers to run in parallel: ANYACCEL_OP_JOBS if it is set, otherwise as
/// many as the cores and memory allow, but at most `steps`.
int job_count(int steps);
/// Like the overload above, but for given resources. `memory` is the number of free bytes;
/// compiling LibTorch's headers takes about 1.5 GiB.
int job_count(int steps, double cores, long long memory);

}  // namespace anyaccel::build
