// Detects kernels that write outside of their tensors' memory. The allocator leaves unused zones
// around each block, which are filled before a kernel runs and compared afterwards.
#include <algorithm>
#include <cstring>

#include "backends/sim/allocator.h"
#include "backends/sim/check/checker.h"
#include "backends/sim/check/operands.h"
#include "backends/sim/memory_map.h"

namespace anyaccel::backends::sim::checking {

namespace {

constexpr unsigned char kFill = 0xB5;

bool is_torch_op(const char* op) { return std::strncmp(op, "aten::", 6) == 0; }

}  // namespace

struct Zone {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;

  void fill() const noexcept { std::memset(begin, kFill, bytes); }
  /// The index of the first changed byte, and the number of bytes up to the last one; {0, 0} if no
  /// byte changed.
  std::pair<std::size_t, std::size_t> changed() const noexcept {
    const auto differs = [](unsigned char byte) { return byte != kFill; };
    const auto* first = std::find_if(begin, begin + bytes, differs);
    if (first == begin + bytes) return {};
    const auto* last = begin + bytes;
    while (!differs(last[-1])) --last;
    return {static_cast<std::size_t>(first - begin), static_cast<std::size_t>(last - first)};
  }
};

/// The memory that contains one or more of a kernel's operands.
struct Surrounded {
  char* address = nullptr;
  std::size_t bytes = 0;
  std::string shape;
  std::shared_ptr<const Stack> allocated_at;

  Zone before() const noexcept {
    return {static_cast<unsigned char*>(memory_map.alias(address - kZone)), kZone};
  }
  Zone after() const noexcept {
    // The allocator rounds sizes up.
    const auto size = (bytes + kZone - 1) / kZone * kZone + kZone;
    return {static_cast<unsigned char*>(memory_map.alias(address + bytes)), size - bytes};
  }
};

class ZoneWatch final : public KernelWatch {
 public:
  ZoneWatch(Checker& checker, const char* op, SimStream& stream, std::vector<Surrounded> memory,
            std::shared_ptr<const Stack> launched_at)
      : checker_(checker),
        op_(op),
        stream_(stream),
        memory_(std::move(memory)),
        launched_at_(std::move(launched_at)) {}

  void before() noexcept override {
    for (const auto& each : memory_) {
      each.before().fill();
      each.after().fill();
    }
  }

  void after() noexcept override {
    for (const auto& each : memory_) {
      if (const auto [first, count] = each.before().changed(); count != 0)
        report(each, count, std::to_string(kZone - first) + " bytes before the start");
      if (const auto [first, count] = each.after().changed(); count != 0)
        report(each, count, std::to_string(first) + " bytes after the end");
    }
  }

 private:
  void report(const Surrounded& memory, std::size_t count, const std::string& where) {
    Problem problem{.kind = Kind::out_of_bounds, .what = {}, .now = {}};
    const auto id = id_of(stream_);
    problem.now = {.op = op_, .stream = stream_text(id), .shape = memory.shape, .stream_id = id};
    problem.what = problem.now.op + " on " + problem.now.stream + " writes " +
                   std::to_string(count) + " bytes outside of a tensor's memory (" +
                   std::to_string(memory.bytes) + " bytes), from " + where;
    if (memory.allocated_at != nullptr) {
      problem.before = {.op = "allocation", .stream = {}, .shape = {}};
      problem.before.stack = stack_text(*memory.allocated_at);
    }
    const bool on_worker = running().stream != nullptr;
    if (!on_worker)
      checker_.report(std::move(problem));
    else
      checker_.report(std::move(problem), launched_at_ != nullptr ? *launched_at_ : Stack{});
  }

  Checker& checker_;
  const char* op_;
  SimStream& stream_;
  const std::vector<Surrounded> memory_;
  const std::shared_ptr<const Stack> launched_at_;  ///< null unless launches' stacks are stored
};

std::unique_ptr<KernelWatch> Checker::watch_kernel(SimStream& stream, const LaunchInfo& info) {
  if (is_torch_op(info.op)) return nullptr;
  std::vector<Surrounded> memory;
  for (const auto& operand : info.operands) {
    const int device = memory_map.device_of(operand.address);
    if (device < 0 || operand.bytes == 0) continue;
    const auto found =
        runtime().devices[static_cast<std::size_t>(device)]->memory->allocation_with_zones(
            operand.address);
    if (!found || std::any_of(memory.begin(), memory.end(),
                              [&](const Surrounded& each) { return each.address == found->first; }))
      continue;
    memory.push_back({.address = found->first, .bytes = found->second});
    if (const auto touch = touch_of(operand)) memory.back().shape = shape_text(touch->region);
    if (extra_.leaks)
      if (const auto known = detector_.memory_at(number(found->first)))
        memory.back().allocated_at = known->allocated_at;
  }
  if (memory.empty()) return nullptr;
  return std::make_unique<ZoneWatch>(
      *this, info.op, stream, std::move(memory),
      keep_stacks_ ? std::make_shared<const Stack>(capture_stack()) : nullptr);
}

}  // namespace anyaccel::backends::sim::checking
