#include "launch/start_timeout.h"

#include <algorithm>
#include <utility>

namespace anyaccel::launch {

namespace {

constexpr int kNamed = 8;

}  // namespace

StartTimeout::StartTimeout(std::vector<std::string> hosts, std::chrono::milliseconds limit,
                           Clock::time_point now)
    : hosts_(std::move(hosts)),
      limit_(limit),
      last_(now),
      watching_(limit.count() > 0 && !hosts_.empty()) {}

int StartTimeout::milliseconds(Clock::time_point now) const {
  if (!watching_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(last_ + limit_ - now).count();
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left, 0, 1000000000));
}

std::string StartTimeout::missing(const std::set<int>& started, Clock::time_point now) {
  if (watching_ && started.size() > seen_) {
    seen_ = started.size();
    last_ = now;
    watching_ = seen_ < hosts_.size();
  }
  if (!watching_ || now < last_ + limit_) return {};
  watching_ = false;
  std::string out;
  int more = -kNamed;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (!started.contains(static_cast<int>(i)) && ++more <= 0)
      out.append(out.empty() ? "rank " : ", rank ")
          .append(std::to_string(i))
          .append(" on ")
          .append(hosts_[i]);
  return more > 0 ? out + " and " + std::to_string(more) + " more" : out;
}

}  // namespace anyaccel::launch
