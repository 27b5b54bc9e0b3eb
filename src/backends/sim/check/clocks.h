// Vector clocks that track which work is complete. There is one per stream, one for the host, and
// one per recorded event. Does not use torch.
#pragma once

#include <cstdint>
#include <vector>

namespace anyaccel::backends::sim::checking {

/// Zero-based stream index. Indices need not be dense.
using StreamId = int;
/// Zero-based index of a host thread.
using ThreadId = int;
/// One-based sequence number of a task in its stream; 0 is before the first.
using Time = std::uint64_t;

struct HostThread;

/// For each stream, the time up to which its work is known to be complete. A host thread's clock
/// also contains, for each other thread, the time up to which it knows that thread's launches. This
/// knowledge is passed on only between threads. Waiting for a stream does not pass it on, because
/// the wait covers another thread's launch only if that launch happened to be earlier.
class Clock {
 public:
  Time at(StreamId stream) const noexcept { return get(times_, stream); }
  void set(StreamId stream, Time time) { set(times_, stream, time); }
  Time thread(ThreadId thread) const noexcept { return get(threads_, thread); }
  void set_thread(ThreadId thread, Time time) { set(threads_, thread, time); }
  /// Takes the later time of both clocks for each stream and thread. Returns true if that changes
  /// this clock.
  bool join(const Clock& other);
  /// Like join(), but only for streams.
  bool join_streams(const Clock& other) { return join(times_, other.times_); }

 private:
  using Times = std::vector<Time>;
  static Time get(const Times& times, int index) noexcept {
    return static_cast<std::size_t>(index) < times.size() ? times[static_cast<std::size_t>(index)]
                                                          : 0;
  }
  static void set(Times& times, int index, Time time);
  static bool join(Times& times, const Times& others);

  Times times_, threads_;
};

/// The clocks of all streams, events and threads. Not thread-safe. `host` is the calling thread. A
/// wait counts for the thread that waits, and for other threads once the waiting thread has passed
/// its knowledge to them (host_threads.h). Open threads share one clock: they know of every
/// thread's waits, and every thread knows of theirs.
class Clocks {
 public:
  /// Adds a task to the stream, ordered after everything that the host has waited for. Returns its
  /// time.
  Time tick(StreamId stream, HostThread& host);
  Time now(StreamId stream) const noexcept;
  /// True if new work that `host` launches on stream `after` cannot start before `stream` has
  /// completed its work up to `time`.
  bool ordered(StreamId stream, Time time, StreamId after, HostThread& host);
  bool known_by_host(StreamId stream, Time time, HostThread& host);
  bool known_by_any(StreamId stream, Time time) const noexcept { return all_.at(stream) >= time; }

  void record(std::uint64_t event, StreamId stream, HostThread& host);
  /// Orders later work on `stream` after the event. If the event is so old that it is no longer
  /// stored, orders the work after all earlier work.
  void wait(std::uint64_t event, StreamId stream);
  void host_waits_for_event(std::uint64_t event, HostThread& host);
  void host_waits_for_stream(StreamId stream, HostThread& host);

 private:
  struct Record {
    std::uint64_t event = 0;
    Clock clock;
  };
  Clock& of(StreamId stream);
  void take_host_in(StreamId stream, HostThread& host);
  void take_shared(HostThread& host);
  void host_learns(const Clock& clock, HostThread& host);
  Clock remembered(std::uint64_t event) const;

  std::vector<Clock> streams_;
  struct Seen {
    const HostThread* host = nullptr;
    std::uint64_t version = 0;
  };
  std::vector<Seen> seen_;  ///< for each stream, the host clock that it merged last
  Clock all_;               ///< what any thread has waited for
  Clock open_;              ///< what open threads have waited for
  std::uint64_t all_version_ = 0, open_version_ = 0;
  std::vector<Record> records_;  ///< a ring buffer; events are numbered consecutively
};

}  // namespace anyaccel::backends::sim::checking
