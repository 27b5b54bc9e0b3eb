// The operations of ProcessGroup. They use shared memory if the tensor and the group support it,
// and the backend otherwise.
#include <ATen/ops/empty.h>

#include "anyaccel/accelerator.h"
#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "comm/process_group.h"

// Ignore deprecation warnings: LibTorch 2.13 renamed some functions, but 2.11 lacks the new names.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace anyaccel::comm {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Throws for averages of integers, because backends round them differently.
c10d::ReduceOp for_backend(const char* where, ReduceOp op, const at::Tensor& tensor) {
  if (op == ReduceOp::avg && c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true))
    throw Error(ErrorCode::unsupported, where,
                {.what = "AVG requires a floating-point dtype",
                 .got = std::string("dtype ") + dtype_name(tensor.scalar_type()),
                 .want = "a floating-point or complex dtype"});
  switch (op) {
    case ReduceOp::avg: return c10d::ReduceOp::AVG;
    case ReduceOp::product: return c10d::ReduceOp::PRODUCT;
    case ReduceOp::min: return c10d::ReduceOp::MIN;
    case ReduceOp::max: return c10d::ReduceOp::MAX;
    case ReduceOp::sum: break;
  }
  return c10d::ReduceOp::SUM;
}

/// Returns the shape of the gathered tensor: the first dimension is multiplied by the number of
/// ranks.
std::vector<std::int64_t> gathered(const at::Tensor& input, int size) {
  auto sizes = input.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] *= size;
  return sizes;
}

void check_multiple(const char* where, const at::Tensor& large, const at::Tensor& small, int size) {
  if (large.numel() != small.numel() * size || large.scalar_type() != small.scalar_type() ||
      large.device() != small.device())
    throw Error(
        ErrorCode::invalid_argument, where,
        {.what =
             "the size of the larger tensor must be that of the smaller one times the number of "
             "ranks",
         .got =
             std::to_string(large.numel()) + " and " + std::to_string(small.numel()) + " elements",
         .want = std::to_string(small.numel() * size) + " and " + std::to_string(small.numel()) +
                 " elements with the same dtype and device"});
}

/// Returns true if ShareMemComm can use the memory of both host tensors without a copy.
bool are_plain(const at::Tensor& one, const at::Tensor& other) {
  const auto is_plain = [](const at::Tensor& tensor) {
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  };
  return is_plain(one) && is_plain(other);
}

/// Tells autograd that the tensor's memory has changed.
void mark_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

template <typename Call>
void ProcessGroup::Impl::run(const char* where, const Call& call) {
  try {
    c10::intrusive_ptr<c10d::Work> work;
    {
      const std::lock_guard lock(posting_);
      work = call(*group);
    }
    if (work) work->wait();
  } catch (...) {
    rethrow_as_error(where);
  }
}

template <typename Call>
std::shared_ptr<Work::State> ProcessGroup::Impl::begin(const char* where, const at::Tensor& tensor,
                                                       const Call& call) {
  class InBackend final : public Work::State {
   public:
    InBackend(const char* where, at::Tensor kept, c10::intrusive_ptr<c10d::Work> work)
        : where_(where), kept_(std::move(kept)), work_(std::move(work)) {}
    bool done() const override { return !work_ || work_->isCompleted(); }
    void wait() override {
      try {
        if (work_) work_->wait();
      } catch (...) {
        rethrow_as_error(where_);
      }
    }

   private:
    const char* where_;
    at::Tensor kept_;
    c10::intrusive_ptr<c10d::Work> work_;
  };
  try {
    const std::lock_guard lock(posting_);
    return std::make_shared<InBackend>(where, tensor, call(*group));
  } catch (...) {
    rethrow_as_error(where);
  }
}

namespace {

/// Returns a function that posts an all-reduce to a backend.
auto posted_all_reduce(const at::Tensor& tensor, ReduceOp op) {
  return [&tensor, op](c10d::ProcessGroup& group) {
    Tensors list{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = for_backend("all_reduce", op, tensor);
    return group.allreduce(list, options);
  };
}

}  // namespace

void ProcessGroup::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  if (auto* memory = impl_->memory_for(tensor)) return memory->all_reduce_(tensor, op);
  impl_->run("all_reduce", posted_all_reduce(tensor, op));
}

Work ProcessGroup::all_reduce_async(const at::Tensor& tensor, ReduceOp op) {
  auto* const memory =
      tensor.is_cpu() && tensor.layout() == c10::kStrided ? impl_->memory() : nullptr;
  if (memory == nullptr)
    return Work(impl_->begin("all_reduce_async", tensor, posted_all_reduce(tensor, op)));
  return Work(
      impl_->begin_in_memory(tensor, [memory, tensor, op] { memory->all_reduce_(tensor, op); }));
}

void ProcessGroup::reduce(const at::Tensor& tensor, int destination, ReduceOp op) {
  impl_->check_rank("reduce", destination);
  impl_->run("reduce", [&](c10d::ProcessGroup& group) {
    Tensors list{tensor};
    c10d::ReduceOptions options;
    options.reduceOp = for_backend("reduce", op, tensor);
    options.rootRank = destination;
    return group.reduce(list, options);
  });
}

void ProcessGroup::broadcast(const at::Tensor& tensor, int source) {
  impl_->check_rank("broadcast", source);
  if (auto* memory = impl_->memory_for(tensor)) return memory->broadcast_(tensor, source);
  impl_->run("broadcast", [&](c10d::ProcessGroup& group) {
    Tensors list{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = source;
    return group.broadcast(list, options);
  });
}

at::Tensor ProcessGroup::all_gather(const at::Tensor& input) {
  if (auto* memory = impl_->memory_for(input)) return memory->all_gather(input);
  auto output = at::empty(gathered(input, impl_->size), input.options());
  all_gather_into_tensor(output, input);
  return output;
}

void ProcessGroup::all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input) {
  check_multiple("all_gather_into_tensor", output, input, impl_->size);
  if (auto* memory = impl_->memory_for(input)) {
    if (!are_plain(output, input)) {
      output.copy_(memory->all_gather(input).view(output.sizes()));
      return;
    }
    memory->all_gather(input.const_data_ptr(), output.mutable_data_ptr(),
                       static_cast<std::int64_t>(input.nbytes()));
    return mark_changed(output);
  }
  impl_->run("all_gather_into_tensor", [&](c10d::ProcessGroup& group) {
    auto to = output;
    auto from = input;
    return group._allgather_base(to, from);
  });
}

at::Tensor ProcessGroup::reduce_scatter(const at::Tensor& input, ReduceOp op) {
  if (input.dim() == 0 || input.size(0) % impl_->size != 0)
    throw Error(ErrorCode::invalid_argument, "reduce_scatter",
                {.what = "the first dimension must be a multiple of the number of ranks",
                 .got = input.dim() == 0 ? "a scalar" : std::to_string(input.size(0)),
                 .want = "a multiple of " + std::to_string(impl_->size)});
  if (auto* memory = impl_->memory_for(input)) return memory->reduce_scatter(input, op);
  auto sizes = input.sizes().vec();
  sizes[0] /= impl_->size;
  auto output = at::empty(sizes, input.options());
  reduce_scatter_tensor(output, input, op);
  return output;
}

void ProcessGroup::reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                                         ReduceOp op) {
  check_multiple("reduce_scatter_tensor", input, output, impl_->size);
  if (auto* memory = impl_->memory_for(input)) {
    if (are_plain(output, input)) {
      memory->reduce_scatter(input.const_data_ptr(), output.mutable_data_ptr(), output.numel(),
                             input.scalar_type(), op);
      return mark_changed(output);
    }
    // View the input as one row per rank, regardless of its shape.
    const auto rows = input.reshape({impl_->size, output.numel()});
    output.copy_(memory->reduce_scatter(rows, op).view(output.sizes()));
    return;
  }
  impl_->run("reduce_scatter_tensor", [&](c10d::ProcessGroup& group) {
    auto to = output;
    auto from = input;
    c10d::ReduceScatterOptions options;
    options.reduceOp = for_backend("reduce_scatter_tensor", op, input);
    return group._reduce_scatter_base(to, from, options);
  });
}

Work ProcessGroup::reduce_scatter_async(const at::Tensor& output, const at::Tensor& input,
                                        ReduceOp op) {
  constexpr const char* where = "reduce_scatter_async";
  check_multiple(where, input, output, impl_->size);
  if (!input.is_contiguous() || !output.is_contiguous())
    throw Error(ErrorCode::invalid_argument, where, {.what = "the tensors must be contiguous"});
  auto* const memory =
      input.is_cpu() && input.layout() == c10::kStrided ? impl_->memory() : nullptr;
  if (memory != nullptr) {
    mark_changed(output);
    return Work(impl_->begin_in_memory(input, [memory, output, input, op] {
      memory->reduce_scatter(input.const_data_ptr(), output.mutable_data_ptr(), output.numel(),
                             input.scalar_type(), op);
    }));
  }
  return Work(impl_->begin(where, input, [&](c10d::ProcessGroup& group) {
    auto to = output;
    auto from = input;
    c10d::ReduceScatterOptions options;
    options.reduceOp = for_backend(where, op, input);
    return group._reduce_scatter_base(to, from, options);
  }));
}

std::vector<at::Tensor> ProcessGroup::gather(const at::Tensor& input, int destination) {
  impl_->check_rank("gather", destination);
  std::vector<Tensors> outputs;
  if (impl_->rank == destination) {
    outputs.emplace_back();
    for (int i = 0; i < impl_->size; ++i)
      outputs[0].push_back(at::empty(input.sizes(), input.options()));
  }
  impl_->run("gather", [&](c10d::ProcessGroup& group) {
    Tensors inputs{input};
    c10d::GatherOptions options;
    options.rootRank = destination;
    return group.gather(outputs, inputs, options);
  });
  return outputs.empty() ? Tensors{} : outputs[0];
}

void ProcessGroup::scatter(const at::Tensor& output, const std::vector<at::Tensor>& parts,
                           int source) {
  impl_->check_rank("scatter", source);
  if ((impl_->rank == source) != (std::ssize(parts) == impl_->size) ||
      (impl_->rank != source && !parts.empty()))
    throw Error(
        ErrorCode::invalid_argument, "scatter",
        {.what = "the source rank must pass one part per rank, and all other ranks none",
         .got = std::to_string(parts.size()) + " parts on rank " + std::to_string(impl_->rank),
         .want = std::to_string(impl_->rank == source ? impl_->size : 0) + " parts"});
  impl_->run("scatter", [&](c10d::ProcessGroup& group) {
    Tensors outputs{output};
    std::vector<Tensors> inputs;
    if (!parts.empty()) inputs.push_back(parts);
    c10d::ScatterOptions options;
    options.rootRank = source;
    return group.scatter(outputs, inputs, options);
  });
}

void ProcessGroup::all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                                     std::vector<std::int64_t> output_splits,
                                     std::vector<std::int64_t> input_splits) {
  impl_->run("all_to_all_single", [&](c10d::ProcessGroup& group) {
    auto to = output;
    auto from = input;
    return group.alltoall_base(to, from, output_splits, input_splits);
  });
}

void ProcessGroup::all_to_all(const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs) {
  impl_->run("all_to_all", [&](c10d::ProcessGroup& group) {
    auto to = outputs;
    auto from = inputs;
    return group.alltoall(to, from);
  });
}

void ProcessGroup::send(const at::Tensor& tensor, int destination, int tag) {
  impl_->check_rank("send", destination);
  impl_->run("send", [&](c10d::ProcessGroup& group) {
    Tensors list{tensor};
    return group.send(list, destination, tag);
  });
}

void ProcessGroup::recv(const at::Tensor& tensor, int source, int tag) {
  impl_->check_rank("recv", source);
  impl_->run("recv", [&](c10d::ProcessGroup& group) {
    Tensors list{tensor};
    return group.recv(list, source, tag);
  });
}

void ProcessGroup::barrier() {
  auto* memory = get_accelerator().device_type() == c10::kCPU ? impl_->memory_in_turn() : nullptr;
  if (memory != nullptr) return memory->barrier();
  impl_->run("barrier", [&](c10d::ProcessGroup& group) { return group.barrier(); });
}

}  // namespace anyaccel::comm
