// Runs ops without an explicit kernel: the stream's worker calls the CPU kernel on aliases of the
// tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <exception>

#include "backends/sim/call.h"
#include "backends/sim/index_rows.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/register.h"
#include "backends/sim/reject.h"
#include "backends/sim/result.h"

namespace anyaccel::backends::sim {

namespace {

using torch::jit::Stack;

const c10::DispatchKeySet kHostKeys(c10::DispatchKey::CPU);

/// Returns all tensors on a stack, including those in lists. `lists` receives the number of tensors
/// in each entry, or -1 for a single tensor.
std::vector<at::Tensor> flattened(c10::ArrayRef<c10::IValue> values,
                                  std::vector<std::int64_t>* lists = nullptr) {
  std::vector<at::Tensor> tensors;
  for (const auto& value : values) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
      if (lists != nullptr) lists->push_back(-1);
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      tensors.insert(tensors.end(), list.begin(), list.end());
      if (lists != nullptr) lists->push_back(static_cast<std::int64_t>(list.size()));
    }
  }
  return tensors;
}

/// A queued op. It holds addresses but no references, because memory is freed in stream order, as
/// on a GPU.
class OpTask final : public Task {
 public:
  OpTask(const OpInfo& info, Stack arguments, std::optional<RandomDraw> draw)
      : Task(info.name.c_str()),
        info_(info),
        arguments_(std::move(arguments)),
        draw_(std::move(draw)) {}

  void writes_to(const std::vector<at::Tensor>& aliases) {
    for (const auto& each : aliases) results_.emplace_back(each);
  }
  /// Sets the tensors for new results. The op's out= form writes them directly; otherwise the
  /// results are copied.
  void gives(const std::vector<at::Tensor>& aliases) {
    if (info_.out) {
      for (const auto& each : aliases) {
        arguments_.emplace_back(each);
        if (each.defined()) results_.emplace_back(each);
      }
    } else {
      copies_ = aliases;
    }
  }

  void run(bool again) override {
    Stack stack = again ? arguments_ : std::move(arguments_);
    if (draw_) stack[static_cast<std::size_t>(info_.generator)] = draw_->host_generator();
    (copies_.empty() && info_.out ? *info_.out : info_.op).redispatchBoxed(kHostKeys, &stack);
    if (!copies_.empty()) copy_results(stack);
    for (const auto& result : results_) {
      result.bring_back(name());
      if (again) result.restore();
    }
  }

 private:
  void copy_results(const Stack& stack) {
    std::vector<c10::IValue> fresh;
    for (std::size_t i = 0; i < stack.size(); ++i)
      if (info_.returned[i] < 0) fresh.push_back(stack[i]);
    const auto values = flattened(fresh);
    TORCH_CHECK(values.size() == copies_.size(), "returned ", values.size(), " results, but ",
                copies_.size(), " in an earlier call with the same argument shapes");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!copies_[i].defined() || !values[i].defined()) continue;
      TORCH_CHECK(values[i].sizes() == copies_[i].sizes(), "returned a result of shape ",
                  values[i].sizes(), ", but ", copies_[i].sizes(),
                  " in an earlier call with the same argument shapes");
      copies_[i].copy_(values[i]);
    }
  }

  const OpInfo& info_;
  Stack arguments_;
  std::optional<RandomDraw> draw_;
  std::vector<Result> results_;
  std::vector<at::Tensor> copies_;
};

std::optional<RandomDraw> draw_for(const Call& call) {
  if (call.info().generator < 0) return std::nullopt;
  const auto& given = call.argument(call.info().generator);
  return next_draw(call.device(),
                   given.isGenerator() ? std::make_optional(given.toGenerator()) : std::nullopt);
}

std::vector<at::Tensor> allocate(const Call& call, c10::ArrayRef<TensorGeometry> geometry) {
  std::vector<at::Tensor> tensors;
  for (const auto& each : geometry) {
    if (!each.defined) {
      tensors.emplace_back();
      continue;
    }
    tensors.push_back(empty_strided(call.device(), each.sizes, each.strides, each.dtype));
    auto* impl = tensors.back().unsafeGetTensorImpl();
    if (each.conj) impl->_set_conj(true);
    if (each.neg) impl->_set_neg(true);
  }
  return tensors;
}

/// Replaces the arguments on the stack with the results.
void give_back(const Call& call, Stack* stack, std::size_t arguments,
               const std::vector<at::Tensor>& fresh, const std::vector<std::int64_t>& lists) {
  const auto& info = call.info();
  Stack results;
  std::size_t next = 0;
  std::size_t list = 0;
  for (const int source : info.returned) {
    if (source >= 0) {
      results.push_back(call.argument(source));
      continue;
    }
    const auto count = lists[list++];
    if (count < 0) {
      results.emplace_back(fresh[next++]);
      continue;
    }
    c10::List<at::Tensor> tensors;
    for (std::int64_t i = 0; i < count; ++i) tensors.push_back(fresh[next++]);
    results.emplace_back(std::move(tensors));
  }
  torch::jit::drop(*stack, arguments);
  for (auto& result : results) stack->push_back(std::move(result));
}

void add_results(std::vector<Operand>& operands, const std::vector<at::Tensor>& fresh) {
  for (const auto& tensor : fresh)
    if (tensor.defined()) operands.push_back(operand(tensor, true));
}

void launch_call(const Call& call, std::unique_ptr<Task> task,
                 const std::vector<at::Tensor>& fresh = {}) {
  std::vector<Operand> operands;
  std::shared_ptr<IndexRows> rows;
  if (observer() != nullptr) {
    operands = call.operands();
    rows = index_rows(call);
    for (auto& each : operands)
      if (rows != nullptr && each.tensor == rows->tensor()) each.rows = rows;
    add_results(operands, fresh);
  }
  task->rows = rows;
  launch(call.stream(), std::move(task), {.op = call.info().name.c_str(), .operands = operands});
  if (rows != nullptr) rows->submitted();
}

/// Reports to the observer, which must exist, an op that the host runs in place of the stream.
std::unique_ptr<KernelWatch> tell(const Call& call, std::vector<Operand> operands,
                                  const std::vector<at::Tensor>& fresh) {
  add_results(operands, fresh);
  const LaunchInfo info{.op = call.info().name.c_str(), .operands = operands};
  observer()->on_launch(call.stream(), info);
  return observer()->watch_kernel(call.stream(), info);
}

/// Queues a call whose result geometry is known, without waiting.
void queue(const Call& call, const Geometry& geometry, Stack* stack, std::size_t arguments) {
  const auto& written = call.written();
  const c10::ArrayRef<TensorGeometry> all(geometry.tensors);
  for (std::size_t i = 0; i < written.size(); ++i)
    if (written[i].sizes() != c10::IntArrayRef(all[i].sizes))
      resize(written[i], all[i].sizes, all[i].strides);
  const auto fresh = allocate(call, all.slice(written.size()));
  std::vector<at::Tensor> aliases, results;
  auto host = call.host_arguments(aliases);
  auto task = std::make_unique<OpTask>(call.info(), std::move(host), draw_for(call));
  task->writes_to(aliases);
  for (const auto& tensor : fresh)
    results.push_back(tensor.defined() ? alias(tensor) : at::Tensor());
  if (!results.empty()) task->gives(results);
  launch_call(call, std::move(task), fresh);
  give_back(call, stack, arguments, fresh, geometry.lists);
}

/// Runs the CPU kernel in stream order, waits for it and rethrows its exception. Errors from
/// earlier work are reported at the program's next wait. If the op returns values to the program,
/// this call counts as such a wait.
void run_now(const Call& call, Stack& host) {
  const auto& info = call.info();
  auto& stream = call.stream();
  const auto draw = draw_for(call);
  std::exception_ptr failure;
  bool ran = false;
  const auto body = [&] {
    ran = true;
    try {
      if (draw) host[static_cast<std::size_t>(info.generator)] = draw->host_generator();
      info.op.redispatchBoxed(kHostKeys, &host);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  if (info.own_thread) {
    const auto watch = observer() != nullptr ? tell(call, call.operands(), {}) : nullptr;
    stream.wait(stream.last());
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    run_watched(watch.get(), body);
  } else {
    launch_call(call, std::make_unique<FunctionTask<decltype(body)>>(info.name.c_str(), body));
    stream.wait(stream.last());
    if (!ran) stream.device().raise();
    if (info.waits) drain(stream, info.name.c_str());
  }
  if (failure) std::rethrow_exception(failure);
}

/// Called after run_now(). Updates a written device tensor: its values and, if the kernel changed
/// them, its shape and storage.
void take_over(const at::Tensor& tensor, const Result& result, SimStream& stream) {
  const auto& host = result.alias;
  if (host.sizes() == c10::IntArrayRef(result.geometry.sizes) && !result.moved()) {
    result.bring_back("");
    return;
  }
  if (host.sizes() != tensor.sizes()) {
    resize(tensor, host.sizes(), host.strides());
    stream.wait(stream.last());
  }
  if (result.moved() && host.numel() != 0) alias(tensor).copy_(host);
}

void run_and_learn(const Call& call, Stack* stack, std::size_t arguments) {
  const auto& info = call.info();
  std::vector<at::Tensor> aliases;
  auto host = call.host_arguments(aliases);
  std::vector<Result> results;
  for (const auto& each : aliases) results.emplace_back(each);
  run_now(call, host);

  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Geometry geometry;
  for (std::size_t i = 0; i < results.size(); ++i) {
    geometry.tensors.push_back(geometry_of(results[i].alias));
    take_over(call.written()[i], results[i], call.stream());
  }
  if (info.waits) {
    // The results may include values that are not tensors.
    for (std::size_t i = 0; i < host.size(); ++i) {
      if (info.returned[i] >= 0) {
        host[i] = call.argument(info.returned[i]);
      } else if (host[i].isTensor() || host[i].isTensorList()) {
        const auto to_device = [&](const at::Tensor& value) {
          if (!value.defined()) return value;
          check_layout(info.name, value);
          auto tensor = allocate(call, geometry_of(value))[0];
          if (value.numel() != 0) alias(tensor).copy_(value);
          if (observer() != nullptr) tell(call, {}, {tensor});
          return tensor;
        };
        if (host[i].isTensor()) {
          host[i] = to_device(host[i].toTensor());
        } else {
          c10::List<at::Tensor> list;
          for (const auto& value : host[i].toTensorVector()) list.push_back(to_device(value));
          host[i] = std::move(list);
        }
      }
    }
    torch::jit::drop(*stack, arguments);
    for (auto& value : host) stack->push_back(std::move(value));
    return;
  }
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < host.size(); ++i)
    if (info.returned[i] < 0) values.push_back(std::move(host[i]));
  const auto fresh_host = flattened(values, &geometry.lists);
  for (const auto& value : fresh_host) {
    check_layout(info.name, value);
    geometry.tensors.push_back(geometry_of(value));
  }
  const auto fresh =
      allocate(call, c10::ArrayRef<TensorGeometry>(geometry.tensors).slice(results.size()));
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (fresh[i].defined() && fresh[i].numel() != 0) alias(fresh[i]).copy_(fresh_host[i]);
  if (observer() != nullptr) tell(call, {}, fresh);
  if (call.known_by_key()) remember(call.key(), geometry);
  give_back(call, stack, arguments, fresh, geometry.lists);
}

/// Nothing can run during a capture, so torch's meta kernels infer the shapes.
Geometry geometry_without_data(const Call& call) {
  const auto& info = call.info();
  if (info.waits || !call.known_by_key())
    reject(info.name, " cannot be captured: the host must wait for its values");
  if (!info.op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta))
    reject(info.name,
           " cannot be captured before it has run with these shapes; run the work once before the "
           "capture");
  Geometry geometry;
  std::vector<at::Tensor> metas;
  auto stack = call.meta_arguments(metas);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  info.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  for (const auto& each : metas) geometry.tensors.push_back(geometry_of(each));
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < stack.size(); ++i)
    if (info.returned[i] < 0) values.push_back(stack[i]);
  for (const auto& value : flattened(values, &geometry.lists))
    geometry.tensors.push_back(geometry_of(value));
  return geometry;
}

at::Tensor view_like(const at::Tensor& base, const at::Tensor& host) {
  // The view needs the base's keys, for example so that autograd tracks its version counter.
  const auto keys = base.key_set() -
                    c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), keys, host.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  if (host.is_conj()) impl->_set_conj(true);
  if (host.is_neg()) impl->_set_neg(true);
  return result;
}

/// Views do not read data, so the host computes them immediately.
void run_view(const Call& call, Stack* stack, std::size_t arguments) {
  std::vector<at::Tensor> unused;
  auto host = call.host_arguments(unused);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  call.info().op.redispatchBoxed(kHostKeys, &host);
  const at::Tensor base = call.argument(0).toTensor();
  for (auto& value : host) {
    if (value.isTensor()) {
      value = view_like(base, value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& each : value.toTensorVector()) list.push_back(view_like(base, each));
      value = std::move(list);
    }
  }
  torch::jit::drop(*stack, arguments);
  for (auto& value : host) stack->push_back(std::move(value));
}

}  // namespace

void check_layout(const std::string& op, const at::Tensor& value) {
  if (value.defined() && value.layout() != c10::kStrided)
    reject<c10::NotImplementedError>(
        op, " returned a tensor with the layout ", value.layout(),
        ", which is not supported on the simulated device; use dense or sparse COO tensors, or "
        "compute on the host");
}

void drain(SimStream& stream, const char* op) {
  if (stream.capture() != nullptr)
    reject(op, " cannot be captured: the host must wait for its values");
  synchronize(stream);
}

void run_op(const c10::OperatorHandle& op, Stack* stack) {
  const auto& info = op_info(op);
  if (!info.host_kernel)
    reject<c10::NotImplementedError>(
        info.name, " has no kernel for the CPU, so the simulated device cannot run it");
  TORCH_CHECK(info.name.rfind("c10d::", 0) != 0, "[sim] ", info.name,
              " is a collective and runs through a process group, not through the device");
  const auto arguments = info.written.size();
  const Call call(info, torch::jit::last(*stack, arguments));
  if (info.view) return run_view(call, stack, arguments);
  const bool may_know = !info.waits && !info.own_thread && call.known_by_key();
  if (const auto known = may_know ? recall(call.key()) : nullptr)
    return queue(call, *known, stack, arguments);
  const bool captured = call.stream().capture() != nullptr;
  if (!captured && !(may_know && info.known_shapes)) return run_and_learn(call, stack, arguments);
  const auto geometry = geometry_without_data(call);
  if (info.known_shapes) remember(call.key(), geometry);
  queue(call, geometry, stack, arguments);
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  run_op(op, stack);
}

}  // namespace anyaccel::backends::sim
