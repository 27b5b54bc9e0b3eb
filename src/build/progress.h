// One line on a terminal that says what a long build does. Nothing where standard error is no terminal, but for waits.
#pragma once

#include <chrono>
#include <string>

namespace anyaccel::build {

/// Not thread-safe.
class Progress {
 public:
  explicit Progress(std::string name) : name_(std::move(name)) {}
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `text`; call it often, it writes rarely.
  void show(const std::string& text);
  /// As show(); without a terminal it is one line of the log, once.
  void wait_for(long holder);

 private:
  std::string name_;
  std::string shown_;
  bool told_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// How many compilers may run at once: ANYACCEL_OP_JOBS, else what cores and memory allow, at most `steps`.
int job_count(int steps);
/// The same from numbers: `memory` bytes are free, one compiler of LibTorch's headers takes about 1.5 GiB.
int job_count(int steps, int cores, long long memory);

}  // namespace anyaccel::build
