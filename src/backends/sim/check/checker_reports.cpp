// The problems that the checker reports.
#include <unistd.h>

#include <cstdio>

#include "backends/sim/check/checker.h"
#include "backends/sim/check/host_operands.h"
#include "backends/sim/check/host_seeding.h"
#include "backends/sim/check/operands.h"
#include "backends/sim/check/stack.h"
#include "backends/sim/check/tensors.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim::checking {

namespace {

std::string mebibytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

const char* did(const Use& use) { return use.written ? "writes" : "reads"; }

std::string named(const Use& use) {
  return use.replayed ? std::string(use.op) + " (in a graph)" : use.op;
}

}  // namespace

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
                     " reads memory that has not been written since its allocation";
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
                     " may still use a freed tensor in the same memory";
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
                 " but uses only memory on " + device_text(elsewhere);
  problem.now = {.op = info.op, .stream = stream_text(id_of(stream)), .shape = {}};
  if (const auto touch = touch_of(info.operands.front()))
    problem.now.shape = shape_text(touch->region);
  report(std::move(problem));
}

void Checker::report_leaks() {
  for (const auto& device : runtime().devices) {
    const auto low = number(memory_map.device_base(device->index));
    const auto [used, blocks] = detector_.live_in(low, low + memory_map.slice, 1000);
    for (const auto& block : blocks) {
      Problem problem{.kind = Kind::leak, .what = {}, .now = {}};
      problem.what = std::to_string(block.bytes) + " bytes on " + device_text(device->index) +
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
  note(std::move(problem));
  stopped_.store(true, std::memory_order_relaxed);
  expect_error();
}

void Checker::on_reject(const std::string& what) {
  Problem problem{.kind = Kind::rejected, .what = what, .now = {}};
  problem.now.op = current_op();
  note(std::move(problem));
  expect_error();
}

void Checker::note(Problem problem) {
  const auto stack = capture_stack();
  problem.place = place(stack);
  if (reporter_.count_note(problem)) return;
  problem.now.stack = stack_text(stack);
  problem.line = caller(stack);
  reporter_.note(std::move(problem));
}

void Checker::on_unseeded_draw(SimStream& stream) {
  if (unseeded_noted_.load(std::memory_order_relaxed)) return;
  const auto seeding = find_host_seeding();
  if (!seeding || unseeded_noted_.exchange(true)) return;
  const auto device = device_text(stream.device().index);
  Problem problem{.kind = Kind::unseeded_device, .what = {}, .now = {}};
  problem.now = {.op = current_op(), .stream = stream_text(id_of(stream)), .shape = {}};
  const auto stack = capture_stack();
  problem.line = caller(stack);
  problem.place = place(stack);
  problem.now.stack = stack_text(stack);
  problem.what = problem.now.op + " draws random numbers on " + device +
                 ", whose generator was never seeded, although the program seeded " +
                 seeding->generator;
  if (seeding->stack) {
    problem.what += " (" + caller(*seeding->stack) + ")";
    problem.before = {.op = "seeding " + seeding->generator, .stream = {}, .shape = {}};
    problem.before.stack = stack_text(*seeding->stack);
  }
  problem.what += "; on a GPU, the results differ from run to run";
  reporter_.notice(std::move(problem));
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
  ::_exit(exit_code_);  // the only way to change the exit code in an exit handler
}

bool Checker::on_fault(std::uintptr_t address, bool writes) {
  const auto* pointer = reinterpret_cast<const void*>(address);
  const bool device = memory_map.contains(pointer);
  if (!device && device_view(const_cast<void*>(pointer)) == pointer &&
      !views_.in_second_view(address))
    return false;
  Problem problem;
  const auto op = current_op();
  if (device) {
    problem.kind = Kind::host_access;
    problem.now = {.op = op, .stream = {}, .shape = {}};
    const auto memory = detector_.memory_at(address);
    problem.what = op + (writes ? " writes to " : " reads ") + "memory on " +
                   device_text(memory_map.device_of(pointer)) + " from the host";
    const auto kernel = running();
    if (kernel.stream != nullptr) {
      problem.now.op = kernel.op;
      problem.what =
          std::string(kernel.op) + " on " + stream_text(id_of(*kernel.stream)) +
          " uses the tensor's address, which kernels cannot access; use the address from alias()";
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
  // Without a copy, another thread has made the pages accessible in the meantime.
  if (const auto copy = views_.touched(address, writes)) report_early_access(op, *copy, writes);
  return true;
}

void Checker::on_host_op(const c10::OperatorName& op, c10::ArrayRef<const c10::IValue> arguments) {
  find_host_operands(op, arguments, [&](const c10::TensorImpl& tensor, bool writes) {
    const auto region = region_of(tensor);
    auto* address = reinterpret_cast<void*>(region.low);
    if (device_view(address) == address) return;
    if (const auto copy = views_.touched(region, writes))
      report_early_access(op.name, *copy, writes);
  });
}

void Checker::on_host_read(std::uintptr_t address, std::size_t bytes) {
  if (!views_.has_parts()) return;
  const Region region{.low = address, .high = address + bytes};
  if (const auto copy = views_.touched(region, /*writes=*/false))
    report_early_access(current_op(), *copy, /*writes=*/false);
}

void Checker::report_early_access(const std::string& op, const Use& copy, bool writes) {
  Problem problem{.kind = Kind::not_synchronized, .what = {}, .now = {}, .before = part(copy)};
  problem.now = {.op = op, .stream = problem.before.stream, .shape = problem.before.shape};
  problem.what = op + (writes ? " writes to " : " reads ") +
                 "pinned memory on the host while a copy " + (copy.written ? "into" : "out of") +
                 " it on " + problem.before.stream + " may not have completed";
  report(std::move(problem));
}

void Checker::on_refused(const Refusal& refusal) {
  if (refusal.early_use) {
    note({.kind = Kind::rejected,
          .what = "an event was used before it was complete; synchronize() it first",
          .now = {.op = current_op()}});
    return;
  }
  Problem problem;
  problem.now = {.op = refusal.op,
                 .stream = stream_text(id_of(current_stream(current_device()))),
                 .shape = refusal.tensors};
  if (refusal.other_accelerator) {
    problem.kind = Kind::other_accelerator;
    problem.what = refusal.op + " was called for " + refusal.device +
                   ", but this program's accelerator is " + device_text(0);
  } else {
    problem.kind = Kind::wrong_device;
    problem.what = refusal.op + " got tensors on several devices: " + refusal.tensors;
  }
  report(std::move(problem));
}

}  // namespace anyaccel::backends::sim::checking
