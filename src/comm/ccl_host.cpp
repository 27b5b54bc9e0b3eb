#include "comm/ccl_host.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <functional>
#include <optional>
#include <utility>

#include "anyaccel/ops/ccl_comm.h"
#include "comm/host_backend.h"
#include "comm/lazy_work.h"

namespace anyaccel::comm {

namespace {

using c10d::OpType;

/// Returns nullopt for reductions that oneCCL does not support.
std::optional<ReduceOp> reduction(c10d::ReduceOp::RedOpType kind) {
  switch (kind) {
    case c10d::ReduceOp::SUM: return ReduceOp::sum;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::product;
    case c10d::ReduceOp::MIN: return ReduceOp::min;
    case c10d::ReduceOp::MAX: return ReduceOp::max;
    default: return std::nullopt;
  }
}

/// oneCCL's own send and recv terminate the process if the tensor is in host memory.
class CclHost final : public HostBackend {
 public:
  CclHost(const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<c10d::Backend> gloo,
          const GroupOptions& options)
      : HostBackend(std::move(gloo), options),
        ccl_(std::make_shared<ops::CCLComm>(store, options.rank, options.size, options.timeout)) {}

  const std::string getBackendName() const override { return kCcl; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return lazy(OpType::BROADCAST, [ccl = ccl_, tensor = tensors[0], root = options.rootRank] {
      ccl->broadcast_(tensor, root);
    });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const auto reduce = reduction(options.reduceOp);
    if (!reduce) return gloo_->allreduce(tensors, options);
    return lazy(OpType::ALLREDUCE,
                [ccl = ccl_, tensor = tensors[0], reduce] { ccl->all_reduce_(tensor, *reduce); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const auto reduce = reduction(options.reduceOp);
    if (!reduce) return gloo_->reduce(tensors, options);
    return lazy(OpType::REDUCE, [ccl = ccl_, tensor = tensors[0], reduce, root = options.rootRank] {
      ccl->reduce_(tensor, root, *reduce);
    });
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& /*options*/) override {
    return lazy(OpType::ALLGATHER, [ccl = ccl_, parts = outputs[0], input = inputs[0]] {
      put(ccl->all_gather(input.reshape({-1})), parts);
    });
  }
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return lazy(OpType::GATHER,
                [ccl = ccl_, parts = outputs.empty() ? Tensors() : outputs[0], input = inputs[0],
                 root = options.rootRank, rank = rank_, size = size_] {
                  std::vector<std::int64_t> from(size), to(size, rank == root ? input.numel() : 0);
                  from[root] = input.numel();
                  const auto all = ccl->all_to_all(input.reshape({-1}), to, from);
                  if (rank == root) put(all, parts);
                });
  }
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    return lazy(OpType::SCATTER, [ccl = ccl_, output = outputs[0],
                                  parts = inputs.empty() ? Tensors() : inputs[0],
                                  root = options.rootRank, rank = rank_, size = size_] {
      std::vector<std::int64_t> from(size, rank == root ? output.numel() : 0), to(size);
      to[root] = output.numel();
      const auto mine = rank == root ? at::cat(flat(parts)) : at::empty({0}, output.options());
      put(ccl->all_to_all(mine, to, from), {output});
    });
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const auto reduce = reduction(options.reduceOp);
    if (!reduce) return gloo_->reduce_scatter(outputs, inputs, options);
    return lazy(OpType::REDUCE_SCATTER,
                [ccl = ccl_, output = outputs[0], parts = inputs[0], reduce] {
                  put(ccl->reduce_scatter(at::cat(flat(parts)), *reduce), {output});
                });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& /*options*/) override {
    return lazy(OpType::ALLTOALL_BASE, [ccl = ccl_, output, input, output_splits, input_splits] {
      put(ccl->all_to_all(input, output_splits, input_splits), {output});
    });
  }
  WorkPtr barrier(const c10d::BarrierOptions& /*options*/) override {
    return lazy(OpType::BARRIER, [ccl = ccl_] { ccl->barrier(); });
  }

 private:
  WorkPtr lazy(OpType type, std::function<void()> operation) const {
    return c10::make_intrusive<LazyWork>(rank_, type, std::move(operation));
  }
  /// Copies consecutive slices of the flat tensor `all` to `parts`.
  static void put(const at::Tensor& all, const Tensors& parts) {
    std::int64_t offset = 0;
    for (const auto& part : parts) {
      at::Tensor(part).copy_(all.narrow(0, offset, part.numel()).view(part.sizes()));
      offset += part.numel();
    }
  }

  std::shared_ptr<ops::CCLComm> ccl_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_ccl_host(const c10::intrusive_ptr<c10d::Store>& store,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options) {
  return c10::make_intrusive<CclHost>(store, std::move(gloo), options);
}

}  // namespace anyaccel::comm
