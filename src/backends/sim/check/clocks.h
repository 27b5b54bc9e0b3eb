// Vector clocks that track which work is complete. There is one per stream, one for the host, and
// one per recorded event. No torch.
#pragma once

#include <cstdint>
#include <vector>

namespace anyaccel::backends::sim::checking {

/// Index of a stream, from 0. Indices need not be dense.
using StreamId = int;
/// Sequence number of a task in its stream, from 1; 0 is before the first.
using Time = std::uint64_t;

class Clock {
 public:
  Time at(StreamId stream) const noexcept {
    return static_cast<std::size_t>(stream) < times_.size()
               ? times_[static_cast<std::size_t>(stream)]
               : 0;
  }
  void set(StreamId stream, Time time);
  /// Takes the later time of both clocks for each stream.
  void join(const Clock& other);

 private:
  std::vector<Time> times_;
};

/// Not thread-safe. All host threads share one clock, because synchronization between them (locks,
/// joins) is not observed. A wait by one thread therefore counts for all.
class Clocks {
 public:
  /// Adds a task to the stream, ordered after everything that the host has waited for. Returns its
  /// time.
  Time tick(StreamId stream);
  Time now(StreamId stream) const noexcept;
  /// True if new work on stream `after` cannot start before `stream` has completed its work up to
  /// `time`.
  bool ordered(StreamId stream, Time time, StreamId after) const noexcept;
  bool known_by_host(StreamId stream, Time time) const noexcept { return host_.at(stream) >= time; }

  void record(std::uint64_t event, StreamId stream);
  /// Orders later work of `stream` after the event. If the event is so old that it is no longer
  /// stored, orders the work after all earlier work.
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
  std::vector<std::uint64_t>
      host_seen_;  ///< the version of the host's clock that each stream has merged
  Clock host_;
  std::uint64_t host_version_ = 0;
  std::vector<Record> records_;  ///< a ring buffer; events are numbered consecutively
};

}  // namespace anyaccel::backends::sim::checking
