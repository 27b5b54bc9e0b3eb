#include "backends/sim/check/host_views.h"

#include <sys/mman.h>

#include <algorithm>

namespace anyaccel::backends::sim::checking {

namespace {

constexpr std::uintptr_t kPage = 4096;

void allow(std::uintptr_t low, std::uintptr_t high, int what) {
  ::mprotect(reinterpret_cast<void*>(low), high - low, what);
}

}  // namespace

void HostViews::protect(const Closed& closed) const {
  // Another copy in flight may write to some of the same pages.
  bool written = closed.copy.written;
  for (const auto& other : closed_)
    written |= other.copy.written && other.low < closed.high && closed.low < other.high;
  allow(closed.low, closed.high, written ? PROT_NONE : PROT_READ);
}

void HostViews::close(const Use& copy, bool whole) {
  Closed closed{.copy = copy, .low = copy.region.low, .high = copy.region.high};
  closed.low = (whole ? closed.low : closed.low + kPage - 1) / kPage * kPage;
  closed.high = (whole ? closed.high + kPage - 1 : closed.high) / kPage * kPage;
  if (closed.low >= closed.high) return;
  const std::lock_guard lock(mutex_);
  protect(closed);
  closed_.push_back(std::move(closed));
}

template <typename Done>
void HostViews::open_where(Done done) {
  std::vector<Closed> opened;
  std::erase_if(closed_, [&](Closed& closed) {
    if (!done(closed)) return false;
    opened.push_back(std::move(closed));
    return true;
  });
  if (opened.empty()) return;
  for (const auto& each : opened) allow(each.low, each.high, PROT_READ | PROT_WRITE);
  for (const auto& each : closed_) protect(each);
}

void HostViews::open_known(const Detector& detector) {
  const std::lock_guard lock(mutex_);
  open_where([&](const Closed& closed) {
    return detector.known_by_any(closed.copy.stream, closed.copy.time);
  });
}

void HostViews::open(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  open_where(
      [&](const Closed& closed) { return closed.low < address + bytes && address < closed.high; });
}

std::optional<Use> HostViews::touched(std::uintptr_t address, bool writes) {
  const std::lock_guard lock(mutex_);
  std::optional<Use> disturbed;
  for (const auto& closed : closed_)
    if (address >= closed.low && address < closed.high && (writes || closed.copy.written))
      disturbed = closed.copy;
  open_where([&](const Closed& closed) { return address >= closed.low && address < closed.high; });
  return disturbed;
}

}  // namespace anyaccel::backends::sim::checking
