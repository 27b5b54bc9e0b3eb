#include "backends/sim/check/checker.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <sstream>

#include "anyaccel/error.h"
#include "backends/sim/check/fault_handler.h"
#include "backends/sim/check/stack.h"
#include "backends/sim/check/tensors.h"
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

constexpr int kStreamsOfDevice = 1 + 2 * Device::kPooled;

// Identifiers need not be dense. The size of a clock depends on the highest identifier in use.
StreamId id_of(const SimStream& stream) {
  return stream.device().index * kStreamsOfDevice + stream.id();
}

std::string device_text(int index) { return runtime().device(index).str(); }

std::string stream_text(StreamId id) {
  const int number = id % kStreamsOfDevice;
  return (number == 0 ? "the default stream" : "stream " + std::to_string(number)) + " of " +
         device_text(id / kStreamsOfDevice);
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Returns the memory range of an operand; nullopt if the range is empty.
std::optional<Touch> touch_of(const Operand& operand) {
  if (operand.address == nullptr || operand.bytes == 0) return std::nullopt;
  Touch touch{.storage = number(operand.address),
              .bytes = operand.bytes,
              .region = {},
              .written = operand.written,
              .rows = operand.rows};
  if (operand.tensor != nullptr) {
    touch.region = region_of(*operand.tensor);
  } else {
    touch.region.low = touch.storage;
    touch.region.high = touch.storage + operand.bytes;
  }
  if (touch.region.low == touch.region.high) return std::nullopt;
  return touch;
}

std::string mebibytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

const char* did(const Use& use) { return use.written ? "writes" : "reads"; }

std::string named(const Use& use) {
  return use.replayed ? std::string(use.op) + " (in a graph)" : use.op;
}

/// True if the two uses of the conflict access different rows of the memory. Waits for the index
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

Part Checker::part(const Use& use) const {
  return {.op = named(use),
          .stream = stream_text(use.stream),
          .shape = shape_text(use.region),
          .stream_id = use.stream};
}

std::string Checker::created_at(StreamId stream) const {
  Stack stack;
  {
    const std::lock_guard lock(streams_mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return {};
    stack = found->second;
  }
  return caller(stack);
}

void Checker::report(const Conflict& conflict) {
  Problem problem;
  const auto& now = conflict.now;
  const auto& before = conflict.before;
  problem.now = part(now);
  problem.before = part(before);
  switch (conflict.kind) {
    case Conflict::unordered:
      problem.kind = Kind::unordered_streams;
      problem.what = problem.now.op + " on " + problem.now.stream + " " + did(now) +
                     " memory that " + problem.before.op + " on " + problem.before.stream + " " +
                     did(before) + ", and neither waits for the other";
      break;
    case Conflict::unordered_threads:
      problem.kind = Kind::unordered_threads;
      problem.what = problem.now.op + " on " + problem.now.stream + " " + did(now) +
                     " memory that " + problem.before.op + " on " + problem.before.stream + " " +
                     did(before) +
                     "; two host threads launched them, and neither thread waits for the other";
      break;
    case Conflict::uninitialized:
      problem.kind = Kind::uninitialized;
      problem.what = problem.now.op + " on " + problem.now.stream +
                     " reads memory to which nothing was written since its allocation";
      problem.before = {};
      break;
    case Conflict::freed_in_use:
      problem.kind = Kind::freed_in_use;
      problem.what =
          "a tensor was freed while " + problem.before.op + " on " + problem.before.stream +
          " may still use it, without record_stream() for that "
          "stream; its memory was returned to " +
          problem.now.stream + ", where the next work, " + problem.now.op + ", may reuse it";
      // The report is about the freed tensor, so show its shape.
      problem.now.shape = problem.before.shape;
      break;
    case Conflict::reused:
      problem.kind = Kind::unordered_streams;
      problem.what = problem.now.op + " on " + problem.now.stream + " " + did(now) +
                     " memory that was allocated on another stream, while " + problem.before.op +
                     " on " + problem.before.stream +
                     " may still use the freed tensor that had this memory before";
      break;
    case Conflict::freed_capture:
      problem.kind = Kind::freed_in_use;
      problem.what = "the graph runs " + problem.before.op +
                     " on memory that was freed after the capture; another tensor may use it now";
      problem.now.shape = problem.before.shape;
      problem.before.stream.clear();
      break;
  }
  if (conflict.freed_at != nullptr)
    report(std::move(problem), *conflict.freed_at, before.frames.get());
  else
    report(std::move(problem), before.frames.get());
}

void Checker::report(Problem problem, const Frames* before) {
  report(std::move(problem), capture_stack(), before);
}

void Checker::report(Problem problem, const Stack& stack, const Frames* before) {
  problem.place = place(stack);
  if (!stack.interpreter.empty()) problem.line = caller(stack);
  if (reporter_.count(problem)) return;
  problem.now.stack = stack_text(stack);
  if (problem.line.empty()) problem.line = caller(stack);
  for (auto* each : {&problem.now, &problem.before})
    if (each->stream_id >= 0) each->stream_created = created_at(each->stream_id);
  if (before != nullptr) problem.before.stack = stack_text({.frames = *before, .interpreter = {}});
  reporter_.report(std::move(problem));
}

void Checker::check_devices(SimStream& stream, const LaunchInfo& info) {
  bool here = false;
  int elsewhere = -1;
  for (const auto& operand : info.operands) {
    const int device = memory_map.device_of(operand.address);
    if (device == stream.device().index) here = true;
    if (device >= 0 && device != stream.device().index) elsewhere = device;
  }
  // A copy between devices runs on a stream of the source device, so its source is on this device.
  if (elsewhere < 0 || here) return;
  Problem problem{.kind = Kind::wrong_device, .what = {}, .now = {}};
  problem.what = std::string(info.op) + " was launched on " + stream_text(id_of(stream)) +
                 " but uses only memory of " + device_text(elsewhere);
  problem.now = {.op = info.op, .stream = stream_text(id_of(stream)), .shape = {}};
  if (const auto touch = touch_of(info.operands.front()))
    problem.now.shape = shape_text(touch->region);
  report(std::move(problem));
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

void Checker::report_leaks() {
  for (const auto& device : runtime().devices) {
    const auto low = number(memory_map.device_base(device->index));
    const auto [used, blocks] = detector_.live_in(low, low + memory_map.slice, 1000);
    for (const auto& block : blocks) {
      Problem problem{.kind = Kind::leak, .what = {}, .now = {}};
      problem.what = std::to_string(block.bytes) + " bytes of " + device_text(device->index) +
                     " are still allocated when the program exits";
      problem.now = {.op = "allocation", .stream = {}, .shape = {}};
      if (block.last)
        problem.now.shape = shape_text(block.last->region);
      else
        problem.now.shape = std::to_string(block.bytes) + " bytes";
      report(std::move(problem), block.allocated_at != nullptr ? *block.allocated_at : Stack{});
    }
  }
}

void Checker::on_free(const void* address, std::size_t /*bytes*/, SimStream& /*stream*/) noexcept {
  detector_.free(number(address), [] { return std::make_shared<const Stack>(capture_stack()); });
}

void Checker::on_out_of_memory(int device, std::size_t bytes) {
  const auto low = number(memory_map.device_base(device));
  const auto [used, largest] = detector_.live_in(low, low + memory_map.slice, 3);
  Problem problem{.kind = Kind::memory_limit, .what = {}, .now = {}};
  problem.what = "tried to allocate " + mebibytes(bytes) + " on " + device_text(device) +
                 ", where tensors use " + mebibytes(used) + " of " +
                 mebibytes(static_cast<std::size_t>(runtime().options.memory));
  for (const auto& memory : largest)
    problem.what +=
        (&memory == largest.data() ? "; the largest: " : ", ") + mebibytes(memory.bytes) +
        (memory.last
             ? " (" + shape_text(memory.last->region) + ", last used by " + memory.last->op + ")"
             : " (not used yet)");
  problem.now = {.op = current_op(),
                 .stream = stream_text(id_of(current_stream(device))),
                 .shape = std::to_string(bytes) + " bytes"};
  const auto stack = capture_stack();
  problem.place = place(stack);
  if (!reporter_.count_note(problem)) {
    problem.now.stack = stack_text(stack);
    reporter_.note(std::move(problem));
  }
  stopped_.store(true, std::memory_order_relaxed);
  expect_error();
}

void Checker::on_program_end(bool failed, Uncaught uncaught) {
  // A program whose main() catches all exceptions has no uncaught exception. If it fails without
  // launching or allocating anything after the error, it did not handle the error.
  const bool ended_by_it =
      uncaught == Uncaught::out_of_memory || (uncaught == Uncaught::unknown && stopped_.load());
  if (failed && ended_by_it) {
    std::fflush(nullptr);  // the report may abort the program
    reporter_.report_last_note();
  }
  if (extra_.leaks && !failed) report_leaks();
  reporter_.finish();
  if (failed || exit_code_ == 0 || reporter_.problems().empty()) return;
  std::fflush(nullptr);
  ::_exit(exit_code_);  // an exit function cannot change the exit code in another way
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
  // Captured copies run at a replay. Memory of other allocators has no second view to protect.
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

bool Checker::on_fault(std::uintptr_t address, bool writes) {
  const auto* pointer = reinterpret_cast<const void*>(address);
  const bool device = memory_map.contains(pointer);
  if (!device && device_view(const_cast<void*>(pointer)) == pointer) return false;
  Problem problem;
  const auto op = current_op();
  if (device) {
    problem.kind = Kind::host_access;
    problem.now = {.op = op, .stream = {}, .shape = {}};
    const auto memory = detector_.memory_at(address);
    problem.what = op + (writes ? " writes to " : " reads ") + "memory of " +
                   device_text(memory_map.device_of(pointer)) + " from the host";
    const auto kernel = running();
    if (kernel.stream != nullptr) {
      problem.now.op = kernel.op;
      problem.what = std::string(kernel.op) + " on " + stream_text(id_of(*kernel.stream)) +
                     " uses the tensor's address instead of the kernel's; get the address from "
                     "alias() when launching it";
    }
    if (!memory || !memory->live) {
      problem.what += ", which no longer belongs to a tensor";
    } else if (memory->last) {
      problem.before = part(*memory->last);
      problem.now.stream = problem.before.stream;
      problem.now.shape = problem.before.shape;
    } else {
      problem.now.shape = std::to_string(memory->bytes) + " bytes";
    }
    report(std::move(problem));
    return false;
  }
  // If there is no copy, another thread has made the pages accessible in the meantime.
  if (const auto copy = views_.touched(address, writes)) {
    problem.kind = Kind::not_synchronized;
    problem.before = part(*copy);
    problem.now = {.op = op, .stream = problem.before.stream, .shape = problem.before.shape};
    problem.what = op + (writes ? " writes to " : " reads ") +
                   "pinned memory on the host while a copy " + (copy->written ? "into" : "out of") +
                   " it on " + problem.before.stream + " may not have ended";
    report(std::move(problem));
  }
  return true;
}

void Checker::on_refused(const Refusal& refusal) {
  Problem problem;
  problem.now = {.op = refusal.op,
                 .stream = stream_text(id_of(current_stream(current_device()))),
                 .shape = refusal.tensors};
  if (refusal.other_accelerator) {
    problem.kind = Kind::other_accelerator;
    problem.what = refusal.op + " was called for " + refusal.device +
                   ", but the accelerator of this program is " + device_text(0);
  } else {
    problem.kind = Kind::wrong_device;
    problem.what = refusal.op + " got tensors of several devices: " + refusal.tensors;
  }
  report(std::move(problem));
}

void Checker::keep_locks_free_in_forks() {
  hold_at_fork(views_.lock_for_fork(), ForkOrder::views);
  hold_at_fork(detector_.lock_for_fork(), ForkOrder::history);
  hold_at_fork(streams_mutex_, ForkOrder::reports);
  hold_at_fork(reporter_.lock_for_fork(), ForkOrder::reports);
}

Checker* checker() noexcept { return started.load(std::memory_order_acquire); }

void start_checks() {
  const auto& options = runtime().options;
  if (options.check.empty()) return;
  // Never destroyed, because work of other threads may end after static destruction has begun.
  auto* one = new Checker(options.check == "abort", options.check_json,
                          env_flag("SIM_CHECK_STACKS"), suppressions_from_environment(),
                          static_cast<int>(env_int("SIM_CHECK_EXIT_CODE", 0, 255).value_or(0)),
                          parse_extra_checks(env("SIM_CHECK_EXTRA").value_or("")));
  one->keep_locks_free_in_forks();
  started.store(one, std::memory_order_release);
  set_observer(one);
  watch_ops([one](const Refusal& refusal) { one->on_refused(refusal); });
  handle_faults(
      [](std::uintptr_t address, bool writes) { return checker()->on_fault(address, writes); });
  watch_program_end(
      [](bool failed, Uncaught uncaught) { checker()->on_program_end(failed, uncaught); });
}

}  // namespace anyaccel::backends::sim::checking
