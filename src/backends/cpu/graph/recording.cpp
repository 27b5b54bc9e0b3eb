#include "backends/cpu/graph/recording.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "backends/cpu/graph/trial.h"

namespace anyaccel::backends::cpu {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

// A functionality key for which torch has no kernels. It is below autograd, so that autograd's own
// copies (of an in-place op's saved input) are recorded too.
constexpr DispatchKey kKey = DispatchKey::Fake;

std::mutex slot_mutex;
std::shared_ptr<Recording>& slot() {
  static std::shared_ptr<Recording> recording;
  return recording;
}

// Recorded threads whose capture was stopped by another thread. The key's state is thread-local, so
// only these threads can reset it.
std::vector<std::thread::id>& left_behind() {
  static std::vector<std::thread::id> threads;
  return threads;
}

void fallback(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const auto below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kKey);
  if (const auto recording = Recording::active()) return recording->record(op, below, stack);
  op.redispatchBoxed(below, stack);
}

// Registers the fallback. Returns false if the key is already in use.
bool key_is_ours() {
  static const bool ours = [] {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) return false;
    static torch::Library library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    return true;
  }();
  return ours;
}

// Registered at load time, because other threads must not dispatch while the tables change.
[[maybe_unused]] const bool registered_at_load = key_is_ours();

}  // namespace

std::shared_ptr<Recording> Recording::begin() {
  if (!key_is_ours()) {
    throw Error(
        ErrorCode::unsupported, "capture_to_graph",
        {.what =
             "the dispatch key that CPU graphs need is already used by LibTorch or another library",
         .got = c10::toString(kKey)});
  }
  const std::lock_guard<std::mutex> lock(slot_mutex);
  if (slot() != nullptr) {
    throw Error(ErrorCode::invalid_state, "capture_to_graph",
                {.what = "another graph is being captured in this process",
                 .hint = "end that capture first"});
  }
  // Otherwise, weights that autocast cast before the capture would become constants in the graph.
  at::autocast::clear_cache();
  auto recording = std::make_shared<Recording>();
  slot() = recording;
  std::erase(left_behind(), std::this_thread::get_id());
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  return recording;
}

std::shared_ptr<Recording> Recording::active() noexcept {
  const std::lock_guard<std::mutex> lock(slot_mutex);
  if (!left_behind().empty() && std::erase(left_behind(), std::this_thread::get_id()) > 0) {
    c10::impl::tls_set_dispatch_key_included(kKey, false);
    return nullptr;
  }
  return slot();
}

bool Recording::on_this_thread() noexcept {
  return c10::impl::tls_is_dispatch_key_included(kKey) &&
         !c10::impl::tls_is_dispatch_key_excluded(kKey) && active() != nullptr;
}

void Recording::stop() noexcept {
  if (owned_by_this_thread()) c10::impl::tls_set_dispatch_key_included(kKey, false);
  at::autocast::clear_cache();
  const std::lock_guard<std::mutex> lock(slot_mutex);
  if (slot().get() != this) return;
  slot() = nullptr;
  if (!owned_by_this_thread()) left_behind().push_back(owner_);
}

std::vector<Recorded> Recording::take_calls() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (refusal_) throw *refusal_;
  snapshots_ = {};
  return std::move(calls_);
}

void Recording::fail(const OperatorHandle& op, const std::string& reason) {
  const Error error(
      ErrorCode::unsupported, "capture_to_graph",
      {.what = "the op " + toString(op.operator_name()) + " cannot be captured: " + reason,
       .hint = "move it out of the capture"});
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_) refusal_ = error;
  calls_.clear();
  throw error;
}

bool Recording::refused() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refusal_.has_value();
}

void Recording::add(Recorded call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_) calls_.push_back(std::move(call));
}

Stack Recording::take(c10::ArrayRef<c10::IValue> values) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Stack taken;
  taken.reserve(values.size());
  for (const auto& value : values) taken.push_back(snapshots_.take(value));
  return taken;
}

void Recording::check_places(const OperatorHandle& op, c10::ArrayRef<c10::IValue> values) {
  for (const auto& tensor : tensors_in(values)) {
    if (tensor.layout() != c10::kStrided || tensor.is_quantized() || tensor.is_nested()) {
      fail(op, "it uses a tensor that is not dense");
    }
    if (!tensor.device().is_cpu() && !tensor.device().is_meta())
      fail(op, "it uses a tensor on another device, " + tensor.device().str());
  }
}

void Recording::record(const OperatorHandle& op, DispatchKeySet below, Stack* stack) {
  const auto& kind = kind_of(op);
  // After an op that cannot be captured, the rest of the scope runs without recording.
  if (refused() || kind.action == OpKind::Action::decompose)
    return op.redispatchBoxed(below, stack);
  if (kind.action == OpKind::Action::fail) fail(op, kind.reason);
  const c10::impl::ExcludeDispatchKeyGuard not_inside(kKey);
  const auto count = op.schema().arguments().size();
  const auto args = torch::jit::last(*stack, count);
  check_places(op, args);
  if (kind.dynamic_by_mask) {
    for (const auto& index : tensors_in(args.slice(1))) {
      if (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte) {
        fail(op, "the shape of its result depends on the values of a mask");
      }
    }
  }
  if (kind.action == OpKind::Action::pass) {
    op.redispatchBoxed(below, stack);
    check_places(op, torch::jit::last(*stack, op.schema().returns().size()));
  } else if (kind.writes) {
    record_in_place(op, kind, below, stack);
  } else {
    record_functional(op, kind, below, stack);
  }
}

void Recording::record_in_place(const OperatorHandle& op, const OpKind& kind, DispatchKeySet below,
                                Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const Stack originals = torch::jit::last(*stack, arguments.size()).vec();
  Stack args = take(originals);
  std::vector<at::Tensor> before;
  if (kind.fast != nullptr) before = copies_of(written(op, args));
  op.redispatchBoxed(below, stack);
  const auto returned = torch::jit::last(*stack, op.schema().returns().size());
  check_places(op, returned);
  // The op may have resized an out= argument.
  const Stack after = take(originals);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i])) args[i] = after[i];
  }
  Recorded call{.args = std::move(args), .overwrites = kind.overwrites};
  call.outputs = written(op, call.args);
  call.inputs = kind.overwrites ? unwritten(op, call.args) : tensors_in(call.args);
  for (const auto& output : call.outputs)
    call.overwrites = call.overwrites && covers_storage(output);
  if (kind.fast != nullptr) {
    call.step = kind.fast(call.args, call.outputs);
    if (call.step != nullptr && repeats(*call.step, call.outputs, before)) {
      call.maker = kind.fast;
      return add(std::move(call));
    }
  }
  // Some ops also return new tensors, for example aten::_native_batch_norm_legit.
  const auto given = tensors_in(originals);
  const auto results = tensors_in(returned);
  const auto is_new = [&](const at::Tensor& result) {
    return std::none_of(given.begin(), given.end(),
                        [&](const auto& input) { return input.is_alias_of(result); });
  };
  std::vector<at::Tensor> copied;
  if (std::any_of(results.begin(), results.end(), is_new)) {
    call.overwrites = false;
    for (const auto& output : take(Stack(results.begin(), results.end())))
      copied.push_back(output.toTensor());
    call.outputs.insert(call.outputs.end(), copied.begin(), copied.end());
  }
  call.step = make_boxed_step(op, call.args, std::move(copied));
  add(std::move(call));
}

void Recording::record_functional(const OperatorHandle& op, const OpKind& kind,
                                  DispatchKeySet below, Stack* stack) {
  Stack args = take(torch::jit::last(*stack, op.schema().arguments().size()));
  op.redispatchBoxed(below, stack);
  const auto returned = torch::jit::last(*stack, op.schema().returns().size());
  check_places(op, returned);
  const auto results = tensors_in(returned);
  const auto inputs = tensors_in(args);
  const auto is_view = [&](const at::Tensor& result) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const auto& input) { return input.is_alias_of(result); });
  };
  // Some functional ops return their input or a view of it. Then there is nothing to replay.
  if (!results.empty() && std::all_of(results.begin(), results.end(), is_view)) return;
  Recorded call{.args = std::move(args), .inputs = inputs, .overwrites = true};
  for (const auto& output : take(Stack(results.begin(), results.end())))
    call.outputs.push_back(output.toTensor());
  if (kind.fast != nullptr) {
    call.step = kind.fast(call.args, call.outputs);
    if (call.step != nullptr && repeats(*call.step, call.outputs, {})) {
      call.maker = kind.fast;
      return add(std::move(call));
    }
  }
  if (kind.out && call.outputs.size() == op.schema().returns().size()) {
    // Writing directly into the recorded results avoids a copy.
    Stack with_out = call.args;
    with_out.insert(with_out.end(), call.outputs.begin(), call.outputs.end());
    call.step = make_boxed_step(*kind.out, std::move(with_out), {});
    if (repeats(*call.step, call.outputs, {})) return add(std::move(call));
  }
  call.step = make_boxed_step(op, call.args, call.outputs);
  add(std::move(call));
}

}  // namespace anyaccel::backends::cpu
