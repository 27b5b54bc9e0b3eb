// What is known to be done: a vector clock for each stream, one for the host, one for each recorded
// event. No torch.
#pragma once

#include <cstdint>
#include <vector>

namespace anyaccel::backends::sim::checking {

/// Streams by number, counted from 0 in the order they are first seen.
using StreamId = int;
/// The n-th piece of work of a stream; 0 is before the first.
using Time = std::uint64_t;

class Clock {
 public:
  Time at(StreamId stream) const noexcept {
    return static_cast<std::size_t>(stream) < times_.size()
               ? times_[static_cast<std::size_t>(stream)]
               : 0;
  }
  void set(StreamId stream, Time time);
  /// Afterwards everything is known that either knew.
  void join(const Clock& other);

 private:
  std::vector<Time> times_;
};

/// Not thread-safe. All host threads share one clock: how they wait for each other (locks, joins)
/// is not seen, so what one waited for counts for all.
class Clocks {
 public:
  /// The stream gets a new piece of work, which comes after all that the host has waited for.
  /// Returns its time.
  Time tick(StreamId stream);
  Time now(StreamId stream) const noexcept;
  /// True when new work of `after` starts only once `time` of `stream` is done.
  bool ordered(StreamId stream, Time time, StreamId after) const noexcept;
  bool known_by_host(StreamId stream, Time time) const noexcept { return host_.at(stream) >= time; }

  void record(std::uint64_t event, StreamId stream);
  /// Work of `stream` from now on comes after the event. One that is too old to be remembered
  /// orders everything.
  void wait(std::uint64_t event, StreamId stream);
  void host_waits_for_event(std::uint64_t event);
  void host_waits_for_stream(StreamId stream);

 private:
  struct Record {
    std::uint64_t event = 0;
    Clock clock;
  };
  Clock& of(StreamId stream);
  void take_host_in(StreamId stream);
  Clock remembered(std::uint64_t event) const;

  std::vector<Clock> streams_;
  std::vector<std::uint64_t> host_seen_;  ///< the host's version that a stream has taken in
  Clock host_;
  std::uint64_t host_version_ = 0;
  std::vector<Record> records_;  ///< a ring; events are numbered one after the other
};

}  // namespace anyaccel::backends::sim::checking
