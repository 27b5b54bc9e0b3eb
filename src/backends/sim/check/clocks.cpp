#include "backends/sim/check/clocks.h"

#include <algorithm>

namespace anyaccel::backends::sim::checking {

namespace {

constexpr std::size_t kRecords = 1 << 14;

}  // namespace

void Clock::set(StreamId stream, Time time) {
  if (times_.size() <= static_cast<std::size_t>(stream))
    times_.resize(static_cast<std::size_t>(stream) + 1);
  times_[static_cast<std::size_t>(stream)] = time;
}

void Clock::join(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (std::size_t i = 0; i < other.times_.size(); ++i)
    times_[i] = std::max(times_[i], other.times_[i]);
}

Clock& Clocks::of(StreamId stream) {
  const auto index = static_cast<std::size_t>(stream);
  if (streams_.size() <= index) {
    streams_.resize(index + 1);
    host_seen_.resize(index + 1);
  }
  return streams_[index];
}

void Clocks::take_host_in(StreamId stream) {
  auto& clock = of(stream);
  auto& seen = host_seen_[static_cast<std::size_t>(stream)];
  if (seen == host_version_) return;
  clock.join(host_);
  seen = host_version_;
}

Time Clocks::tick(StreamId stream) {
  take_host_in(stream);
  auto& clock = of(stream);
  const Time time = clock.at(stream) + 1;
  clock.set(stream, time);
  return time;
}

Time Clocks::now(StreamId stream) const noexcept {
  return static_cast<std::size_t>(stream) < streams_.size()
             ? streams_[static_cast<std::size_t>(stream)].at(stream)
             : 0;
}

bool Clocks::ordered(StreamId stream, Time time, StreamId after) const noexcept {
  if (stream == after || known_by_host(stream, time)) return true;
  return static_cast<std::size_t>(after) < streams_.size() &&
         streams_[static_cast<std::size_t>(after)].at(stream) >= time;
}

void Clocks::record(std::uint64_t event, StreamId stream) {
  if (records_.empty()) records_.resize(kRecords);
  take_host_in(stream);
  records_[event % kRecords] = {.event = event, .clock = of(stream)};
}

Clock Clocks::remembered(std::uint64_t event) const {
  if (!records_.empty() && records_[event % kRecords].event == event)
    return records_[event % kRecords].clock;
  Clock everything;
  for (const auto& clock : streams_) everything.join(clock);
  return everything;
}

void Clocks::wait(std::uint64_t event, StreamId stream) { of(stream).join(remembered(event)); }

void Clocks::host_waits_for_event(std::uint64_t event) {
  host_.join(remembered(event));
  ++host_version_;
}

void Clocks::host_waits_for_stream(StreamId stream) {
  host_.join(of(stream));
  ++host_version_;
}

}  // namespace anyaccel::backends::sim::checking
