// Watches that the ranks which an MPI launcher is to start come up: not all such launchers notice a
// host that they cannot reach.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace anyaccel::launch {

/// Time is told to it, so that nothing here waits.
class StartTimeout {
 public:
  using Clock = std::chrono::steady_clock;

  /// `hosts`: of each rank. `limit`: the longest time without a new rank, 0: for ever.
  StartTimeout(std::vector<std::string> hosts, std::chrono::milliseconds limit,
               Clock::time_point now);

  /// Until there is something to look at, as poll() takes it: below 0 for never.
  int milliseconds(Clock::time_point now) const;

  /// Once, when no rank has come for too long: "rank 1 on b, rank 2 on c", those that have not.
  /// Otherwise empty.
  std::string missing(const std::set<int>& started, Clock::time_point now);

 private:
  std::vector<std::string> hosts_;
  std::chrono::milliseconds limit_;
  Clock::time_point last_;
  std::size_t seen_ = 0;
  bool watching_;
};

}  // namespace anyaccel::launch
