// LibTorch is built without assertions. With assertions enabled here, RecordFunction would have one
// more member than in LibTorch.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "backends/sim/check/op_context.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/Backtrace.h>
#include <c10/util/Logging.h>

#include <array>
#include <atomic>
#include <cstring>

#include "backends/sim/check/host_seeding.h"
#include "backends/sim/check/program_end.h"
#include "backends/sim/check/tensors.h"
#include "backends/sim/check/thread_hooks.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim::checking {

namespace {

struct OpFrame {
  const char* op;  // points to the schema's text
  bool several_devices;
  bool other_accelerator;
  // Set only for ops that may be rejected.
  std::string* tensors;
  std::string* device;
};

/// The nested ops on a thread. Ops beyond the array's size are only counted.
struct OpStack {
  std::array<OpFrame, 32> frames;
  std::size_t depth;
  bool expect_error;
  bool expect_early_use;
  bool in_report;
};

OpStack& ops() noexcept {
  static thread_local OpStack stack;
  return stack;
}

OpCallbacks& callbacks() {
  static auto* all = new OpCallbacks;
  return *all;
}

/// True for ops that accept tensors on several devices, or index tensors on the host.
bool may_mix(const char* op, bool on_host_and_one_device) {
  static constexpr const char* kCopies[] = {
      "aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::_to_copy",
      "aten::to",    "aten::set_",       "aten::_foreach_copy_"};
  static constexpr const char* kIndices[] = {"aten::index",         "aten::index_put",
                                             "aten::index_put_",    "aten::_index_put_impl_",
                                             "aten::_unsafe_index", "aten::_unsafe_index_put",
                                             "aten::tensor_split",  "aten::_ctc_loss",
                                             "aten::ctc_loss"};
  for (const auto* name : kCopies)
    if (std::strcmp(op, name) == 0) return true;
  if (on_host_and_one_device)
    for (const auto* name : kIndices)
      if (std::strcmp(op, name) == 0) return true;
  return false;
}

/// The devices of an op's arguments.
struct Devices {
  std::uint32_t ours = 0;    // bit mask of device indices
  bool host = false;         // a host tensor with at least one dimension
  bool host_scalar = false;  // a zero-dimensional host tensor, which ops on a device also accept
  std::optional<c10::Device> other;

  void add_device(c10::Device device) {
    const auto type = device.type();
    if (type == runtime().type) {
      if (device.has_index()) ours |= 1U << static_cast<unsigned>(device.index());
    } else if (type != c10::kCPU && type != c10::kMeta) {
      other = device;
    }
  }
  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (!tensor.defined()) return;
      if (tensor.device().is_cpu())
        (tensor.dim() > 0 ? host : host_scalar) = true;
      else
        add_device(tensor.device());
    } else if (value.isList()) {
      for (const auto& each : value.toListRef())
        if (each.isTensor()) add(each);
    } else if (value.isDevice()) {
      if (value.toDevice().type() != runtime().type) add_device(value.toDevice());
    } else if (value.isStream()) {
      add_device(value.toStream().device());
    }
  }
  bool only_host() const { return (host || host_scalar) && ours == 0 && !other; }
  bool several() const { return (ours & (ours - 1)) != 0 || (host && ours != 0); }
};

void describe(const c10::IValue& value, std::string& out) {
  if (value.isTensor() && value.toTensor().defined()) {
    if (!out.empty()) out += ", ";
    out += shape_text(region_of(*value.toTensor().unsafeGetTensorImpl())) + " on " +
           value.toTensor().device().str();
  } else if (value.isList() && out.size() < 400) {
    for (const auto& each : value.toListRef())
      if (each.isTensor()) describe(each, out);
  } else if (value.isStream()) {
    out +=
        (out.empty() ? "" : ", ") + std::string("a stream of ") + value.toStream().device().str();
  }
}

/// True while the Python watcher must still be started, which is possible once Python has imported
/// torch.
std::atomic<bool> python_waits{false};

void refused_by_python(const char* device_type) {
  callbacks().refused(
      {.other_accelerator = true, .op = current_op(), .tensors = {}, .device = device_type});
}

void start_watching_python() {
  python_waits = false;
  hook_threads();  // again, after torch has loaded more libraries
  if (!watch_python(c10::DeviceTypeName(runtime().type, /*lower_case=*/true).c_str(),
                    {.refused = &refused_by_python,
                     .uncaught = &python_failed,
                     .read = callbacks().read,
                     .map = callbacks().map,
                     .unmap = callbacks().unmap}))
    python_waits = true;
  else
    watch_host_seeding();  // again, after Python has imported NumPy
}

std::unique_ptr<at::ObserverContext> begin_op(const at::RecordFunction& function) {
  if (python_waits.load(std::memory_order_relaxed)) start_watching_python();
  auto& stack = ops();
  stack.expect_early_use = false;
  const auto depth = stack.depth++;
  if (depth >= stack.frames.size()) return nullptr;
  auto& frame = stack.frames[depth];
  frame = {.op = function.name(),
           .several_devices = false,
           .other_accelerator = false,
           .tensors = {},
           .device = {}};
  Devices devices;
  for (const auto& value : function.inputs()) devices.add(value);
  if (devices.only_host() && callbacks().wants_host_op()) {
    if (const auto name = function.operator_name()) callbacks().host_op(*name, function.inputs());
  }
  frame.other_accelerator = devices.other.has_value();
  frame.several_devices =
      devices.several() && !may_mix(frame.op, (devices.ours & (devices.ours - 1)) == 0);
  if (frame.other_accelerator || frame.several_devices) {
    frame.tensors = new std::string;
    for (const auto& value : function.inputs()) describe(value, *frame.tensors);
    frame.device = new std::string(devices.other ? devices.other->str() : "");
  }
  return nullptr;
}

void end_op(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
  auto& stack = ops();
  if (stack.depth == 0) return;
  if (--stack.depth >= stack.frames.size()) return;
  auto& frame = stack.frames[stack.depth];
  delete frame.tensors;
  delete frame.device;
  frame.tensors = frame.device = nullptr;
}

/// Called for each error that torch creates, when torch collects the error's stack trace.
void error_was_made() {
  auto& stack = ops();
  if (std::exchange(stack.expect_error, false) || stack.in_report) return;
  stack.in_report = true;
  if (std::exchange(stack.expect_early_use, false)) callbacks().refused({.early_use = true});
  for (auto i = std::min(stack.depth, stack.frames.size()); i-- > 0;) {
    const auto& frame = stack.frames[i];
    if (!frame.several_devices && !frame.other_accelerator) continue;
    callbacks().refused({.other_accelerator = frame.other_accelerator,
                         .op = frame.op,
                         .tensors = *frame.tensors,
                         .device = *frame.device});
    break;
  }
  stack.in_report = false;
}

}  // namespace

std::string current_op() {
  const auto& stack = ops();
  const auto depth = std::min(stack.depth, stack.frames.size());
  return depth == 0 ? "host code" : stack.frames[depth - 1].op;
}

void expect_early_use() noexcept { ops().expect_early_use = true; }

void expect_error() noexcept { ops().expect_error = true; }

void watch_ops(OpCallbacks wanted) {
  callbacks() = std::move(wanted);
  start_watching_python();
  at::addGlobalCallback(at::RecordFunctionCallback(&begin_op, &end_op)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  c10::SetStackTraceFetcher(std::function<c10::Backtrace()>([] {
    error_was_made();
    return c10::get_lazy_backtrace(/*frames_to_skip=*/1);
  }));
}

}  // namespace anyaccel::backends::sim::checking
