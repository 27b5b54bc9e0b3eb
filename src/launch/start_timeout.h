// Detects ranks that an MPI launcher fails to start, because some MPI launchers do not detect
// unreachable hosts.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace anyaccel::launch {

/// Measures how long ranks take to start. Never waits: callers pass the current time.
class StartTimeout {
 public:
  using Clock = std::chrono::steady_clock;

  /// `hosts` is the host of each rank. `limit` is the maximum time without a new rank; 0 means no
  /// limit.
  StartTimeout(std::vector<std::string> hosts, std::chrono::milliseconds limit,
               Clock::time_point now);

  /// Returns the milliseconds until missing() may return ranks, as a poll() timeout: negative means
  /// never.
  int milliseconds(Clock::time_point now) const;

  /// Returns the missing ranks, for example "rank 1 on b, rank 2 on c", if the limit has passed
  /// without a new rank; otherwise empty. Reports them only once. `started` contains the ranks that
  /// have started.
  std::string missing(const std::set<int>& started, Clock::time_point now);

 private:
  std::vector<std::string> hosts_;
  std::chrono::milliseconds limit_;
  Clock::time_point last_;
  std::size_t seen_ = 0;
  bool watching_;
};

}  // namespace anyaccel::launch
