#include "backends/sim/check/host_views.h"

#include <sys/mman.h>

#include <algorithm>

#include "backends/sim/page_size.h"

namespace anyaccel::backends::sim::checking {

namespace {

void allow(std::uintptr_t low, std::uintptr_t high, int what) {
  ::mprotect(reinterpret_cast<void*>(low), high - low, what);
}

}  // namespace

void HostViews::protect(const Closed& closed) const {
  if (closed.low >= closed.high) return;
  // Another in-flight copy may write to some of the same pages.
  bool written = closed.copy.written;
  for (const auto& other : closed_)
    written |= other.copy.written && other.low < closed.high && closed.low < other.high;
  allow(closed.low, closed.high, written ? PROT_NONE : PROT_READ);
}

void HostViews::close(const Use& copy, bool whole) {
  Closed closed{.copy = copy, .low = copy.region.low, .high = copy.region.high, .part = !whole};
  closed.low = whole ? page_of(closed.low) : round_up_to_pages(closed.low);
  closed.high = whole ? round_up_to_pages(closed.high) : page_of(closed.high);
  const std::lock_guard lock(mutex_);
  protect(closed);
  if (closed.part) ++parts_;
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
  for (const auto& each : opened) {
    if (each.part) --parts_;
    if (each.low < each.high) allow(each.low, each.high, PROT_READ | PROT_WRITE);
  }
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
  open_where([&](const Closed& closed) {
    return std::min(closed.low, closed.copy.region.low) < address + bytes &&
           address < std::max(closed.high, closed.copy.region.high);
  });
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

std::optional<Use> HostViews::touched(const Region& region, bool writes) {
  const std::lock_guard lock(mutex_);
  std::optional<Use> disturbed;
  open_where([&](const Closed& closed) {
    if (!closed.part || !(writes || closed.copy.written) || !overlap(region, closed.copy.region))
      return false;
    disturbed = closed.copy;
    return true;
  });
  return disturbed;
}

const HostViews::Closed* HostViews::covering(std::uintptr_t address, std::size_t bytes) const {
  for (const auto& closed : closed_) {
    const auto& region = closed.copy.region;
    if (closed.part && region.low <= address && address + bytes <= region.high) return &closed;
  }
  return nullptr;
}

bool HostViews::covered(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return covering(address, bytes) != nullptr;
}

void HostViews::guard(std::uintptr_t view, std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t low = page_of(view);
  const std::uintptr_t high = round_up_to_pages(view + bytes);
  second_views_.push_back({low, high});
  had_second_view_ = true;
  const auto* closed = covering(address, bytes);
  if (closed == nullptr) return;
  closed_.push_back({.copy = closed->copy, .low = low, .high = high, .part = false});
  protect(closed_.back());
}

void HostViews::forget(std::uintptr_t view) {
  const std::lock_guard lock(mutex_);
  const auto inside = [view](const auto& range) { return range.low <= view && view < range.high; };
  std::erase_if(second_views_, inside);
  open_where(inside);
}

bool HostViews::in_second_view(std::uintptr_t address) {
  if (!had_second_view_) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(second_views_.begin(), second_views_.end(), [address](const Range& range) {
    return range.low <= address && address < range.high;
  });
}

}  // namespace anyaccel::backends::sim::checking
