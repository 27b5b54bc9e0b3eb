#include "backends/cpu/graph/recording.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace anyaccel::backends::cpu {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

// A functionality key that torch has no kernels for. It must be below autograd: autograd's own copies (an in-place
// op's saved input) are then recorded too.
constexpr DispatchKey kKey = DispatchKey::Fake;

std::mutex slot_mutex;
std::shared_ptr<Recording>& slot() {
  static std::shared_ptr<Recording> recording;
  return recording;
}

void fallback(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const auto below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kKey);
  if (const auto recording = Recording::active()) return recording->record(op, below, stack);
  op.redispatchBoxed(below, stack);
}

// Registers the fallback. False when the key is taken.
bool key_is_ours() {
  static const bool ours = [] {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) return false;
    static torch::Library library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    return true;
  }();
  return ours;
}

// At load and not at the first capture: other threads must not dispatch while the tables change.
[[maybe_unused]] const bool registered_at_load = key_is_ours();

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.is_contiguous() && b.is_contiguous() && a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

Stack snapshot_all(Snapshots& snapshots, c10::ArrayRef<c10::IValue> values) {
  Stack taken;
  taken.reserve(values.size());
  for (const auto& value : values) taken.push_back(snapshots.take(value));
  return taken;
}

}  // namespace

std::shared_ptr<Recording> Recording::begin() {
  if (!key_is_ours()) {
    throw Error(ErrorCode::unsupported, "capture_to_graph",
                {.what = "the dispatch key that CPU graphs need is used by this LibTorch or another library",
                 .got = c10::toString(kKey)});
  }
  const std::lock_guard<std::mutex> lock(slot_mutex);
  if (slot() != nullptr) {
    throw Error(ErrorCode::invalid_state, "capture_to_graph",
                {.what = "another graph is being captured in this process",
                 .want = "one capture at a time",
                 .hint = "end that capture first"});
  }
  // Weights cast before the capture would be taken for constants.
  at::autocast::clear_cache();
  auto recording = std::make_shared<Recording>();
  slot() = recording;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  return recording;
}

std::shared_ptr<Recording> Recording::active() noexcept {
  const std::lock_guard<std::mutex> lock(slot_mutex);
  return slot();
}

bool Recording::on_this_thread() noexcept {
  return c10::impl::tls_is_dispatch_key_included(kKey) && !c10::impl::tls_is_dispatch_key_excluded(kKey) &&
         active() != nullptr;
}

void Recording::stop() noexcept {
  if (owned_by_this_thread()) c10::impl::tls_set_dispatch_key_included(kKey, false);
  at::autocast::clear_cache();
  const std::lock_guard<std::mutex> lock(slot_mutex);
  if (slot().get() == this) slot() = nullptr;
}

std::vector<std::unique_ptr<Step>> Recording::take_steps() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (refusal_) throw *refusal_;
  return std::move(steps_);
}

void Recording::refuse(const OperatorHandle& op, const std::string& reason) {
  const Error error(ErrorCode::unsupported, "capture_to_graph",
                    {.what = "the op " + toString(op.operator_name()) + " cannot be captured: " + reason,
                     .hint = "move it out of the capture"});
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_) refusal_ = error;
  steps_.clear();
  throw error;
}

bool Recording::refused() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refusal_.has_value();
}

void Recording::add(std::unique_ptr<Step> step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_) steps_.push_back(std::move(step));
}

void Recording::check_places(const OperatorHandle& op, c10::ArrayRef<c10::IValue> values) {
  for (const auto& tensor : tensors_in(values)) {
    if (tensor.layout() != c10::kStrided || tensor.is_quantized() || tensor.is_nested()) {
      refuse(op, "it works on a tensor that is not dense");
    }
    if (!tensor.device().is_cpu() && !tensor.device().is_meta())
      refuse(op, "it works on another device, " + tensor.device().str());
  }
}

void Recording::record(const OperatorHandle& op, DispatchKeySet below, Stack* stack) {
  const auto& kind = kind_of(op);
  // After a refusal the rest of the scope runs as if there was no capture.
  if (refused() || kind.action == OpKind::Action::decompose) return op.redispatchBoxed(below, stack);
  if (kind.action == OpKind::Action::refuse) refuse(op, kind.reason);
  const c10::impl::ExcludeDispatchKeyGuard not_inside(kKey);
  const auto count = op.schema().arguments().size();
  const auto args = torch::jit::last(*stack, count);
  check_places(op, args);
  if (kind.action == OpKind::Action::pass) {
    op.redispatchBoxed(below, stack);
  } else if (kind.writes) {
    record_in_place(op, below, stack);
  } else {
    record_functional(op, kind, below, stack);
  }
  check_places(op, torch::jit::last(*stack, op.schema().returns().size()));
}

void Recording::record_in_place(const OperatorHandle& op, DispatchKeySet below, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const Stack originals = torch::jit::last(*stack, arguments.size()).vec();
  Stack args;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    args = snapshot_all(snapshots_, originals);
  }
  op.redispatchBoxed(below, stack);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // An out= argument may have got its shape from the op.
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) {
      args[i] = snapshots_.take(originals[i]);
    }
  }
  if (!refusal_) steps_.push_back(make_boxed_step(op, std::move(args), {}));
}

void Recording::record_functional(const OperatorHandle& op, const OpKind& kind, DispatchKeySet below, Stack* stack) {
  Stack args;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    args = snapshot_all(snapshots_, torch::jit::last(*stack, op.schema().arguments().size()));
  }
  op.redispatchBoxed(below, stack);
  const auto results = tensors_in(torch::jit::last(*stack, op.schema().returns().size()));
  const auto inputs = tensors_in(args);
  const auto is_view = [&](const at::Tensor& result) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.is_alias_of(result); });
  };
  // Some functional ops answer with their input or a view of it: there is nothing to do again.
  if (!results.empty() && std::all_of(results.begin(), results.end(), is_view)) return;
  std::vector<at::Tensor> outputs;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& result : results) outputs.push_back(snapshots_.take(result));
  }
  if (kind.out && !kind.random && outputs.size() == op.schema().returns().size()) {
    // Writing into the recorded results saves their copy. Some out= kernels resize or round differently: try it.
    Stack with_out = args;
    std::vector<at::Tensor> before;
    for (const auto& output : outputs) {
      with_out.emplace_back(output);
      before.push_back(output.clone());
    }
    auto step = make_boxed_step(*kind.out, std::move(with_out), {});
    std::vector<const void*> addresses;
    for (const auto& output : outputs) addresses.push_back(output.const_data_ptr());
    step->run();
    bool same = true;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      same = same && outputs[i].const_data_ptr() == addresses[i] && outputs[i].sizes() == before[i].sizes() &&
             same_bits(outputs[i], before[i]);
    }
    if (same) return add(std::move(step));
  }
  add(make_boxed_step(op, std::move(args), std::move(outputs)));
}

}  // namespace anyaccel::backends::cpu
