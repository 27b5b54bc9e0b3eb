#include "backends/sim/check/clocks.h"

#include <algorithm>

#include "backends/sim/check/host_threads.h"

namespace anyaccel::backends::sim::checking {

namespace {

constexpr std::size_t kRecords = 1 << 14;

}  // namespace

void Clock::set(Times& times, int index, Time time) {
  const auto at = static_cast<std::size_t>(index);
  if (times.size() <= at) times.resize(at + 1);
  times[at] = time;
}

bool Clock::join(Times& times, const Times& others) {
  if (times.size() < others.size()) times.resize(others.size());
  bool changed = false;
  for (std::size_t i = 0; i < others.size(); ++i) {
    changed |= others[i] > times[i];
    times[i] = std::max(times[i], others[i]);
  }
  return changed;
}

bool Clock::join(const Clock& other) {
  const bool streams = join(times_, other.times_);
  return join(threads_, other.threads_) || streams;
}

Clock& Clocks::of(StreamId stream) {
  const auto index = static_cast<std::size_t>(stream);
  if (streams_.size() <= index) {
    streams_.resize(index + 1);
    seen_.resize(index + 1);
  }
  return streams_[index];
}

void Clocks::take_shared(HostThread& host) {
  const bool open = host.id < 0;
  const auto version = open ? all_version_ : open_version_;
  if (host.seen_shared == version) return;
  host.seen_shared = version;
  if (host.clock.join(open ? all_ : open_)) ++host.version;
}

void Clocks::take_host_in(StreamId stream, HostThread& host) {
  take_shared(host);
  auto& clock = of(stream);
  auto& seen = seen_[static_cast<std::size_t>(stream)];
  if (seen.host == &host && seen.version == host.version) return;
  clock.join_streams(host.clock);
  seen = {.host = &host, .version = host.version};
}

Time Clocks::tick(StreamId stream, HostThread& host) {
  take_host_in(stream, host);
  start_launch(host);
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

bool Clocks::known_by_host(StreamId stream, Time time, HostThread& host) {
  take_shared(host);
  return host.clock.at(stream) >= time;
}

bool Clocks::ordered(StreamId stream, Time time, StreamId after, HostThread& host) {
  if (stream == after || known_by_host(stream, time, host)) return true;
  return static_cast<std::size_t>(after) < streams_.size() &&
         streams_[static_cast<std::size_t>(after)].at(stream) >= time;
}

void Clocks::record(std::uint64_t event, StreamId stream, HostThread& host) {
  if (records_.empty()) records_.resize(kRecords);
  take_host_in(stream, host);
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

void Clocks::host_learns(const Clock& clock, HostThread& host) {
  if (all_.join(clock)) ++all_version_;
  if (host.id < 0 && open_.join(clock)) ++open_version_;
  if (host.clock.join(clock)) ++host.version;
}

void Clocks::host_waits_for_event(std::uint64_t event, HostThread& host) {
  host_learns(remembered(event), host);
}

void Clocks::host_waits_for_stream(StreamId stream, HostThread& host) {
  host_learns(of(stream), host);
}

}  // namespace anyaccel::backends::sim::checking
