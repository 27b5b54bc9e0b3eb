#include "comm/shm_host.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "comm/host_backend.h"
#include "comm/lazy_work.h"

namespace anyaccel::comm {

namespace {

using Tensors = HostBackend::Tensors;
using c10d::OpType;
using RedOpType = c10d::ReduceOp::RedOpType;

/// Number of bytes per rank that a bitwise reduction gathers at a time.
constexpr std::int64_t kGathered = std::int64_t{1} << 20;

bool is_bitwise(RedOpType reduce) {
  return reduce == c10d::ReduceOp::BAND || reduce == c10d::ReduceOp::BOR ||
         reduce == c10d::ReduceOp::BXOR;
}

bool is_integer(c10::ScalarType type) { return c10::isIntegralType(type, /*includeBool=*/false); }

/// Returns the start of the tensors' memory if they follow each other without gaps, otherwise null.
char* adjacent(const Tensors& parts) {
  auto* const start = static_cast<char*>(parts[0].mutable_data_ptr());
  auto* next = start;
  for (const auto& part : parts) {
    if (part.mutable_data_ptr() != next) return nullptr;
    next += part.nbytes();
  }
  return start;
}

/// Applies an operation's own time limit, if it has one, and restores the group's afterwards.
class Limit {
 public:
  Limit(ops::ShareMemComm& memory, std::chrono::milliseconds own, std::chrono::milliseconds usual)
      : memory_(memory), usual_(own.count() > 0 ? usual : own) {
    if (own.count() > 0) memory_.set_timeout(own);
  }
  ~Limit() {
    if (usual_.count() <= 0) return;
    try {
      memory_.set_timeout(usual_);
    } catch (const Error&) {  // the group was closed
    }
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  ops::ShareMemComm& memory_;
  const std::chrono::milliseconds usual_;
};

class ShmHost final : public HostBackend {
 public:
  ShmHost(std::shared_ptr<ops::ShareMemComm> memory, c10::intrusive_ptr<c10d::Backend> gloo,
          const GroupOptions& options)
      : HostBackend(std::move(gloo), options),
        memory_(std::move(memory)),
        timeout_(options.timeout) {}

  const std::string getBackendName() const override { return kShm; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    HostBackend::setTimeout(timeout);
    memory_->set_timeout(timeout);
  }
  void abort() override { memory_->abort(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return lazy(OpType::BROADCAST, options.timeout,
                [memory = memory_, tensor = tensors[0], root = options.rootRank] {
                  memory->broadcast(tensor.mutable_data_ptr(), bytes_of(tensor), root);
                });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return lazy(
        OpType::ALLREDUCE, options.timeout,
        [this, tensor = tensors[0], reduce = options.reduceOp] { reduce_all(tensor, reduce); });
  }
  /// Reduces the tensors of all ranks. StagedBackend passes a copy on ranks other than the root.
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return lazy(
        OpType::REDUCE, options.timeout,
        [this, tensor = tensors[0], reduce = options.reduceOp] { reduce_all(tensor, reduce); });
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return lazy(OpType::ALLGATHER, options.timeout,
                [this, parts = outputs[0], input = inputs[0]] { gather_all(input, parts); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return lazy(OpType::REDUCE_SCATTER, options.timeout,
                [this, output = outputs[0], parts = inputs[0], reduce = options.reduceOp] {
                  reduce_parts(output, parts, reduce);
                });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return lazy(OpType::BARRIER, options.timeout, [memory = memory_] { memory->barrier(); });
  }

  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return gloo_->gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    return gloo_->scatter(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall_base(output, input, output_splits, input_splits, options);
  }

 private:
  static std::int64_t bytes_of(const at::Tensor& tensor) {
    return static_cast<std::int64_t>(tensor.nbytes());
  }

  WorkPtr lazy(OpType type, std::chrono::milliseconds timeout,
               std::function<void()> operation) const {
    return c10::make_intrusive<LazyWork>(
        rank_, type, [this, timeout, operation = std::move(operation)] {
          // Autograd must not record changes to the results.
          const at::AutoDispatchBelowADInplaceOrView below_autograd;
          const Limit limit(*memory_, timeout, timeout_);
          operation();
        });
  }

  void reduce_all(const at::Tensor& tensor, const c10d::ReduceOp& reduce) const {
    if (is_bitwise(reduce)) return reduce_bits(tensor, reduce);
    const auto type = tensor.scalar_type();
    auto* const data = tensor.mutable_data_ptr();
    if (const auto direct = direct_reduction(reduce, type))
      return memory_->all_reduce(data, data, tensor.numel(), type, *direct);
    premultiply(tensor, reduce);
    memory_->all_reduce(data, data, tensor.numel(), type, ReduceOp::sum);
    divide_average(tensor, reduce);
  }

  void gather_all(const at::Tensor& input, const Tensors& parts) const {
    const auto bytes = bytes_of(input);
    if (auto* const out = adjacent(parts))
      return memory_->all_gather(input.const_data_ptr(), out, bytes);
    const auto all = at::empty({size_, input.numel()}, input.options());
    memory_->all_gather(input.const_data_ptr(), all.mutable_data_ptr(), bytes);
    for (int rank = 0; rank < size_; ++rank)
      parts[static_cast<std::size_t>(rank)].view({-1}).copy_(all[rank]);
  }

  void reduce_parts(const at::Tensor& output, const Tensors& parts,
                    const c10d::ReduceOp& reduce) const {
    const auto type = output.scalar_type();
    const auto direct = direct_reduction(reduce, type);
    at::Tensor copy;
    const char* in = adjacent(parts);
    if (!direct || in == nullptr) {
      copy = at::cat(flat(parts));
      in = static_cast<const char*>(copy.const_data_ptr());
    }
    if (is_bitwise(reduce)) {
      reduce_bits(copy, reduce);
      output.view({-1}).copy_(copy.view({size_, -1})[rank_]);
      return;
    }
    if (!direct) premultiply(copy, reduce);
    memory_->reduce_scatter(in, output.mutable_data_ptr(), output.numel(), type,
                            direct.value_or(ReduceOp::sum));
    if (!direct) divide_average(output, reduce);
  }

  /// For PREMUL_SUM: multiplies the values by the factor.
  static void premultiply(const at::Tensor& tensor, const c10d::ReduceOp& reduce) {
    if (reduce.op_ != c10d::ReduceOp::PREMUL_SUM) return;
    const auto* const factor =
        dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(reduce.supplement_.get());
    if (factor == nullptr)
      throw Error(
          ErrorCode::invalid_argument, "all_reduce",
          {.what = "PREMUL_SUM has no factor", .hint = "create it with makePreMulSum(factor)"});
    if (factor->tensor_factor.defined())
      tensor.mul_(factor->tensor_factor.to(tensor.options()));
    else
      tensor.mul_(factor->double_factor);
  }
  /// For AVG of integers: divides the sums by the number of ranks. As in NCCL, truncates.
  void divide_average(const at::Tensor& tensor, const c10d::ReduceOp& reduce) const {
    if (reduce.op_ == c10d::ReduceOp::AVG) tensor.div_(size_, "trunc");
  }

  /// Gathers the tensors of all ranks, in chunks, and combines their bytes in rank order.
  void reduce_bits(const at::Tensor& tensor, RedOpType reduce) const {
    const auto bytes = tensor.view({-1}).view(at::kByte);
    for (std::int64_t start = 0; start < bytes.numel(); start += kGathered) {
      const auto piece = bytes.slice(0, start, std::min(start + kGathered, bytes.numel()));
      const auto all = at::empty({size_, piece.numel()}, piece.options());
      memory_->all_gather(piece.const_data_ptr(), all.mutable_data_ptr(), piece.numel());
      piece.copy_(all[0]);
      for (int rank = 1; rank < size_; ++rank) {
        if (reduce == c10d::ReduceOp::BAND)
          piece.bitwise_and_(all[rank]);
        else if (reduce == c10d::ReduceOp::BOR)
          piece.bitwise_or_(all[rank]);
        else
          piece.bitwise_xor_(all[rank]);
      }
    }
  }

  const std::shared_ptr<ops::ShareMemComm> memory_;
  std::atomic<std::chrono::milliseconds> timeout_;
};

}  // namespace

std::optional<ReduceOp> direct_reduction(RedOpType reduce, c10::ScalarType type) {
  switch (reduce) {
    case c10d::ReduceOp::SUM: return ReduceOp::sum;
    case c10d::ReduceOp::AVG: return is_integer(type) ? std::nullopt : std::optional(ReduceOp::avg);
    case c10d::ReduceOp::PRODUCT: return ReduceOp::product;
    case c10d::ReduceOp::MIN: return ReduceOp::min;
    case c10d::ReduceOp::MAX: return ReduceOp::max;
    default: return std::nullopt;
  }
}

void check_shared_reduction(const char* name, RedOpType reduce, c10::ScalarType type) {
  const auto fail = [&](const char* what, const char* want) {
    throw Error(ErrorCode::unsupported, name,
                {.what = what, .got = std::string("dtype ") + dtype_name(type), .want = want});
  };
  const bool complex = c10::isComplexType(type);
  const bool floating = c10::isFloatingType(type) && c10::elementSize(type) >= 2;
  const bool wide_unsigned = type == c10::kUInt16 || type == c10::kUInt32 || type == c10::kUInt64;
  if (!complex && !floating && !is_integer(type) && type != c10::kBool)
    fail("this dtype cannot be reduced",
         "floats of 16 to 64 bits, integers, bool or complex numbers");
  if (is_bitwise(reduce) && (floating || complex))
    fail("this dtype does not support bitwise reductions", "an integer dtype or bool");
  if (complex && reduce != c10d::ReduceOp::SUM && reduce != c10d::ReduceOp::AVG)
    fail("complex dtypes support only SUM and AVG", "SUM or AVG");
  if (reduce == c10d::ReduceOp::AVG && (type == c10::kBool || wide_unsigned))
    fail("AVG does not support bool or unsigned integers of more than 8 bits",
         "a floating-point, complex or signed integer dtype, or uint8");
  if (reduce == c10d::ReduceOp::PREMUL_SUM && !floating)
    fail("PREMUL_SUM requires a floating-point dtype", "a floating-point dtype");
  if (reduce == c10d::ReduceOp::UNUSED)
    fail("unknown reduction", "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM");
}

c10::intrusive_ptr<c10d::Backend> make_shm_host(std::shared_ptr<ops::ShareMemComm> memory,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options) {
  return c10::make_intrusive<ShmHost>(std::move(memory), std::move(gloo), options);
}

}  // namespace anyaccel::comm
