#include "backends/sim/event.h"

#include <c10/util/Exception.h>

#include <chrono>

#include "backends/sim/device.h"
#include "backends/sim/graph.h"
#include "backends/sim/reject.h"

namespace anyaccel::backends::sim {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

class MarkTask final : public Task {
 public:
  explicit MarkTask(std::shared_ptr<EventRecord> record)
      : Task("event.record", false), record_(std::move(record)) {}
  void run(bool /*again*/) override { record_->complete(); }

 private:
  std::shared_ptr<EventRecord> record_;
};

class WaitTask final : public Task {
 public:
  WaitTask(std::shared_ptr<EventRecord> record, SimStream& stream)
      : Task("event.wait", false), record_(std::move(record)), stream_(stream) {}
  void run(bool /*again*/) override {
    if (record_->done()) return;
    stream_.set_blocked(true);
    record_->wait();
    stream_.set_blocked(false);
  }

 private:
  std::shared_ptr<EventRecord> record_;
  SimStream& stream_;
};

}  // namespace

EventRecord::EventRecord(SimStream& stream, Capture* capture)
    : stream_(stream), capture_(capture), number_(next_number()) {}

void EventRecord::complete() {
  time_ = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

void EventRecord::wait() {
  for (int i = 0; i < 500 && !done(); ++i) {
  }
  if (done()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
}

std::shared_ptr<EventRecord> record_mark(SimStream& stream) {
  auto record = std::make_shared<EventRecord>(stream, stream.capture());
  if (auto* watching = observer()) watching->on_event_record(record->number(), stream);
  // A graph's work runs in the order of its capture, so an event recorded during the capture has no
  // meaning outside the graph.
  if (record->capture() == nullptr) stream.submit(std::make_unique<MarkTask>(record));
  return record;
}

void wait_mark(SimStream& stream, const std::shared_ptr<EventRecord>& record) {
  if (auto* watching = observer()) watching->on_event_wait(record->number(), stream);
  if (&record->stream() == &stream && record->capture() == stream.capture()) return;
  if (record->capture() != nullptr) {
    join_capture(stream, record->capture());
    return;
  }
  if (record->done()) return;
  if (stream.capture() != nullptr)
    reject(
        "a captured stream cannot wait for work outside the capture; wait before capture_begin()");
  stream.submit(std::make_unique<WaitTask>(record, stream));
}

std::shared_ptr<EventRecord> SimEvent::last() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void SimEvent::record(SimStream& stream) {
  stream.device().check_not_lost();
  auto record = record_mark(stream);
  const std::lock_guard lock(mutex_);
  record_ = std::move(record);
}

void SimEvent::wait(SimStream& stream) const {
  stream.device().check_not_lost();
  if (const auto record = last()) wait_mark(stream, record);
}

bool SimEvent::query() const {
  const auto record = last();
  if (record == nullptr) return true;
  auto* watching = observer();
  if (!record->done()) {
    if (watching != nullptr) watching->on_event_incomplete();
    return false;
  }
  if (watching != nullptr) watching->on_event_synchronize(record->number());
  return true;
}

void SimEvent::synchronize() const {
  const auto record = last();
  if (record == nullptr) return;
  if (record->capture() != nullptr)
    reject("the host cannot wait for an event that was recorded in a capture");
  check_not_forked();
  if (auto* watching = observer()) watching->on_event_synchronize(record->number());
  record->wait();
  record->stream().device().raise();
}

double SimEvent::elapsed(const SimEvent& end) const {
  if (!timing_ || !end.timing_) reject("both events must be created with enable_timing");
  const auto from = last();
  const auto to = end.last();
  if (from == nullptr || to == nullptr)
    reject("both events must be recorded before their times are compared");
  if (!from->done() || !to->done())
    reject("both events must be complete; synchronize() the later one first");
  return static_cast<double>(to->time() - from->time()) * 1e-6;
}

}  // namespace anyaccel::backends::sim
