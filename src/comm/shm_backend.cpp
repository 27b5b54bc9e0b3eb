#include "comm/shm_backend.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>

#include "anyaccel/error.h"
#include "comm/shm_host.h"

namespace anyaccel::comm {

namespace {

using Future = c10::ivalue::Future;

/// A work object for an operation that has already completed.
class FinishedWork final : public c10d::Work {
 public:
  FinishedWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs)
      : c10d::Work(rank, type), outputs_(std::move(outputs)) {}

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<Future> getFuture() override {
    auto future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  std::vector<at::Tensor> outputs_;
};

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<ops::ShareMemComm> memory,
                       c10::intrusive_ptr<c10d::Backend> gloo, const GroupOptions& options)
    : StagedBackend(make_shm_host(memory, gloo, options), options, kShm),
      memory_(std::move(memory)),
      gloo_(std::move(gloo)) {
  runs_inline_ = true;
}

at::Tensor ShmBackend::add_reduced(Operation& operation, const at::Tensor& tensor,
                                   c10d::ReduceOp& reduce, Use use) const {
  check_shared_reduction(operation.name, reduce, tensor.scalar_type());
  return operation.staging->add(tensor, use);
}

bool ShmBackend::reduce_directly(const at::Tensor& tensor, const c10d::AllreduceOptions& options) {
  if (options.asyncOp || options.timeout.count() > 0 || !is_idle()) return false;
  if (!tensor.is_cpu() || !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg())
    return false;
  const auto type = tensor.scalar_type();
  const auto reduce = direct_reduction(options.reduceOp, type);
  if (!reduce) return false;
  check_process("all_reduce");
  check_shared_reduction("all_reduce", options.reduceOp, type);
  ++sequence_;
  auto* const data = tensor.mutable_data_ptr();
  memory_->all_reduce(data, data, tensor.numel(), type, *reduce);
  return true;
}

StagedBackend::WorkPtr ShmBackend::allreduce(Tensors& tensors,
                                             const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors[0].layout() == c10::kStrided &&
      reduce_directly(tensors[0], options))
    return c10::make_intrusive<FinishedWork>(rank_, c10d::OpType::ALLREDUCE, tensors);
  if (tensors.size() == 1 && tensors[0].is_sparse() && tensors[0].is_cpu()) {
    // gloo's operations must start in the same order on all ranks, so wait for the queued ones.
    run(operation("all_reduce", c10d::OpType::ALLREDUCE), /*async=*/true)->wait();
    return gloo_->allreduce(tensors, options);
  }
  return StagedBackend::allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Backend> ShmBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  std::string name;
  for (const auto rank : ranks) {
    check_rank("split_group", rank);
    name += (name.empty() ? "" : ",") + std::to_string(rank);
  }
  {
    // The same ranks may be split off repeatedly, and each group needs its own prefix in the store.
    const std::lock_guard lock(parts_mutex_);
    name += "#" + std::to_string(++parts_[name]);
  }
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  return make_shm_backend(c10::make_intrusive<c10d::PrefixStore>("shm split " + name, store),
                          {.rank = static_cast<int>(mine - ranks.begin()),
                           .size = static_cast<int>(ranks.size()),
                           .timeout = (options ? options : options_)->timeout});
}

}  // namespace anyaccel::comm
