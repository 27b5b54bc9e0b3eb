#include "backends/sim/check/checker.h"

#include <atomic>
#include <sstream>

#include "anyaccel/error.h"
#include "backends/sim/check/fault_handler.h"
#include "backends/sim/check/host_seeding.h"
#include "backends/sim/check/operands.h"
#include "backends/sim/check/stack.h"
#include "backends/sim/fork.h"
#include "backends/sim/graph.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"
#include "backends/sim/runtime.h"
#include "base/env.h"
#include "base/file.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::sim::checking {

namespace {

/// True if the two conflicting uses access different rows of the memory. Waits for the index
/// tensors.
bool different_rows(const Conflict& conflict) {
  const auto& now = conflict.now;
  const auto& before = conflict.before;
  return (conflict.kind == Conflict::unordered || conflict.kind == Conflict::unordered_threads) &&
         (now.rows != nullptr || before.rows != nullptr) &&
         !overlap(now.region, now.rows.get(), before.region, before.rows.get());
}

Suppressions suppressions_from_environment() {
  const auto file = env("SIM_CHECK_SUPPRESSIONS");
  if (!file || file->empty()) return {};
  return Suppressions::parse(read_file(*file), *file);
}

std::atomic<Checker*> started{nullptr};

}  // namespace

Checker::Checker(bool aborts, const std::string& json_file, bool keep_stacks,
                 Suppressions suppressions, int exit_code, ExtraChecks extra)
    : keep_stacks_(keep_stacks),
      exit_code_(exit_code),
      extra_(extra),
      reporter_(aborts, json_file, std::move(suppressions)) {
  if (extra.uninitialized) detector_.check_uninitialized();
}

ExtraChecks parse_extra_checks(const std::string& text) {
  ExtraChecks extra;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "leaks") {
      extra.leaks = true;
    } else if (word == "uninitialized") {
      extra.uninitialized = true;
    } else {
      throw Error(ErrorCode::invalid_argument, "SIM_CHECK_EXTRA",
                  {.what = "unknown check",
                   .got = quoted_text(word),
                   .want = "leaks, uninitialized, or both separated by a comma"});
    }
  }
  return extra;
}

void Checker::on_launch(SimStream& stream, const LaunchInfo& info) {
  went_on();
  const auto id = id_of(stream);
  Detector::Conflicts found;
  if (info.replay) {
    found = detector_.replay(info.graph, id);
  } else {
    static thread_local std::vector<Touch> touches;
    touches.clear();
    bool elsewhere = false;
    for (const auto& operand : info.operands) {
      if (auto touch = touch_of(operand)) touches.push_back(*touch);
      elsewhere |= memory_map.contains(operand.address) &&
                   memory_map.device_of(operand.address) != stream.device().index;
    }
    if (elsewhere) check_devices(stream, info);
    if (info.graph != nullptr)
      found = detector_.capture(info.graph, info.pool, id, info.op, touches);
    else
      found = detector_.launch(
          id, info.op, touches,
          keep_stacks_ ? std::make_shared<const Frames>(capture_frames()) : nullptr);
  }
  for (const auto& conflict : found)
    if (!different_rows(conflict)) report(conflict);
}

void Checker::on_stream_create(SimStream& stream) noexcept {
  auto stack = capture_stack();
  const std::lock_guard lock(streams_mutex_);
  streams_[id_of(stream)] = std::move(stack);
}

void Checker::on_allocate(const void* address, std::size_t bytes, SimStream& stream) {
  went_on();
  const auto* capture = stream.capture();
  detector_.allocate(number(address), bytes, id_of(stream),
                     capture == nullptr ? 0 : capture->pool(),
                     extra_.leaks ? std::make_shared<const Stack>(capture_stack()) : nullptr);
}

void Checker::on_free(const void* address, std::size_t /*bytes*/, SimStream& /*stream*/) noexcept {
  detector_.free(number(address), [] { return std::make_shared<const Stack>(capture_stack()); });
}

void Checker::on_record_stream(const void* address, std::size_t /*bytes*/, SimStream& stream) {
  detector_.record_stream(number(address), id_of(stream));
}

void Checker::on_graph_end(const void* graph) noexcept { detector_.end_graph(graph); }

void Checker::on_event_record(std::uint64_t record, SimStream& stream) {
  detector_.record(record, id_of(stream));
}

void Checker::on_event_wait(std::uint64_t record, SimStream& stream) {
  detector_.wait(record, id_of(stream));
}

void Checker::on_event_synchronize(std::uint64_t record) {
  detector_.host_waits_for_event(record);
  views_.open_known(detector_);
}

void Checker::on_stream_synchronize(SimStream& stream) {
  detector_.host_waits_for_stream(id_of(stream));
  views_.open_known(detector_);
}

void Checker::on_device_synchronize(int device) {
  for (const auto& stream : runtime().devices[static_cast<std::size_t>(device)]->streams)
    if (stream->last() != 0) detector_.host_waits_for_stream(id_of(*stream));
  views_.open_known(detector_);
}

void Checker::on_pinned_copy(const Operand& host, SimStream& stream) {
  // Captured copies run only when the graph is replayed. Memory from other allocators has no second
  // view to protect.
  if (stream.capture() != nullptr || device_view(const_cast<void*>(host.address)) == host.address)
    return;
  const auto touch = touch_of(host);
  if (!touch) return;
  const auto id = id_of(stream);
  const Use copy{.op = "aten::copy_",
                 .stream = id,
                 .time = detector_.now(id),
                 .written = host.written,
                 .replayed = false,
                 .region = touch->region,
                 .frames = nullptr};
  const auto& region = touch->region;
  const bool whole =
      region.dense && region.low == touch->storage && region.high == touch->storage + touch->bytes;
  views_.close(copy, whole);
  // Another thread may have waited for the copy since its launch.
  if (detector_.known_by_any(id, copy.time)) views_.open_known(detector_);
}

void Checker::on_pinned_allocate(const void* address, std::size_t bytes) {
  views_.open(number(address), bytes);
  detector_.allocate(number(address), bytes, -1);
}

std::uintptr_t Checker::map_view(std::uintptr_t address, std::size_t bytes) {
  if (!views_.has_parts() || !views_.covered(address, bytes)) return 0;
  const auto view = number(map_again(reinterpret_cast<void*>(address), bytes));
  if (view != 0) views_.guard(view, address, bytes);
  return view;
}

void Checker::unmap_view(std::uintptr_t address, std::size_t bytes) {
  views_.forget(address);
  unmap_again(reinterpret_cast<void*>(address), bytes);
}

void Checker::keep_locks_free_in_forks() {
  hold_at_fork(views_.lock_for_fork(), ForkOrder::views);
  hold_at_fork(detector_.lock_for_fork(), ForkOrder::history);
  hold_at_fork(streams_mutex_, ForkOrder::reports);
  hold_at_fork(reporter_.lock_for_fork(), ForkOrder::reports);
  hold_at_fork(host_seeding_lock_for_fork(), ForkOrder::reports);
}

void Checker::clear() {
  reporter_.clear();
  forget_host_seeding();
  unseeded_noted_ = false;
}

Checker* checker() noexcept { return started.load(std::memory_order_acquire); }

void start_checks() {
  const auto& options = runtime().options;
  if (options.check.empty()) return;
  // Never destroyed, because other threads may still run work after static destruction has begun.
  auto* one = new Checker(options.check == "abort", options.check_json,
                          env_flag("SIM_CHECK_STACKS"), suppressions_from_environment(),
                          static_cast<int>(env_int("SIM_CHECK_EXIT_CODE", 0, 255).value_or(0)),
                          parse_extra_checks(env("SIM_CHECK_EXTRA").value_or("")));
  one->keep_locks_free_in_forks();
  started.store(one, std::memory_order_release);
  set_observer(one);
  watch_host_seeding();
  watch_ops({.refused = [one](const Refusal& refusal) { one->on_refused(refusal); },
             .wants_host_op = [one] { return one->wants_host_op(); },
             .host_op = [one](const auto& op, auto arguments) { one->on_host_op(op, arguments); },
             .read = [](auto address, auto bytes) { checker()->on_host_read(address, bytes); },
             .map = [](auto address, auto bytes) { return checker()->map_view(address, bytes); },
             .unmap = [](auto address, auto bytes) { checker()->unmap_view(address, bytes); }});
  handle_faults(
      [](std::uintptr_t address, bool writes) { return checker()->on_fault(address, writes); });
  watch_program_end(
      [](bool failed, Uncaught uncaught) { checker()->on_program_end(failed, uncaught); });
}

}  // namespace anyaccel::backends::sim::checking
