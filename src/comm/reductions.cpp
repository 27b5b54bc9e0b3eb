// Implements the c10d reductions, with Staging and the host backend.
#include <ATen/ops/view_as_real.h>

#include "anyaccel/error.h"
#include "comm/staged.h"

namespace anyaccel::comm {

using c10d::OpType;

namespace {

bool reducible(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
    case c10::kDouble:
    case c10::kHalf:
    case c10::kBFloat16:
    case c10::kChar:
    case c10::kByte:
    case c10::kInt:
    case c10::kLong:
    case c10::kBool: return true;
    default: return c10::isComplexType(type) && type != c10::kComplexHalf;
  }
}

}  // namespace

at::Tensor StagedBackend::add_reduced(Operation& operation, const at::Tensor& tensor,
                                      c10d::ReduceOp& reduce, Use use) const {
  const auto type = tensor.scalar_type();
  const c10d::ReduceOp::RedOpType kind = reduce;  // ReduceOp's operator== does not accept UNUSED
  const bool average = kind == c10d::ReduceOp::AVG;
  const bool sums = average || kind == c10d::ReduceOp::SUM;
  const bool bitwise =
      kind == c10d::ReduceOp::BAND || kind == c10d::ReduceOp::BOR || kind == c10d::ReduceOp::BXOR;
  const auto fail = [&](const std::string& what, const std::string& want) {
    throw Error(ErrorCode::unsupported, operation.name,
                {.what = what, .got = std::string("dtype ") + dtype_name(type), .want = want});
  };
  if (kind == c10d::ReduceOp::PREMUL_SUM || kind == c10d::ReduceOp::UNUSED)
    throw Error(ErrorCode::unsupported, operation.name,
                {.what = "PREMUL_SUM is not supported",
                 .want = "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR"});
  if (!reducible(type))
    fail("this dtype cannot be reduced",
         "float32, float64, float16, bfloat16, int8, uint8, int32, int64, bool, complex64 or "
         "complex128");
  if (c10::isComplexType(type) && !sums)
    fail("complex numbers can only be summed or averaged", "SUM or AVG");
  if (average && type == c10::kBool)
    fail("AVG does not support bool", "a floating-point, complex or integer dtype");
  if (bitwise && !c10::isIntegralType(type, /*includeBool=*/true))
    fail("bitwise reductions require an integer dtype", "an integer dtype");
  auto host = operation.staging->add(tensor, use);
  if (average && use != Use::read) {
    operation.finish_on_host = [host, size = size_, before = operation.finish_on_host]() mutable {
      if (before) before();
      // As in NCCL, an average of integers is truncated.
      if (c10::isIntegralType(host.scalar_type(), /*includeBool=*/false))
        host.div_(size, "trunc");
      else
        host.div_(size);
    };
  }
  if (average) reduce = c10d::ReduceOp::SUM;
  // As in NCCL, the sum of booleans is their logical OR.
  if (type == c10::kBool && kind == c10d::ReduceOp::SUM) reduce = c10d::ReduceOp::MAX;
  return c10::isComplexType(type) ? at::view_as_real(host) : host;
}

StagedBackend::WorkPtr StagedBackend::allreduce(Tensors& tensors,
                                                const c10d::AllreduceOptions& options) {
  auto op = operation("all_reduce", OpType::ALLREDUCE);
  auto to = options;
  const auto host = add_reduced(op, only(op.name, tensors), to.reduceOp, Use::read_and_write);
  op.posts.push_back([host, to](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.allreduce(list, to);
  });
  op.outputs = tensors;
  return run(std::move(op), options.asyncOp);
}

StagedBackend::WorkPtr StagedBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  auto op = operation("all_reduce_coalesced", OpType::ALLREDUCE_COALESCED);
  for (const auto& tensor : tensors) {
    c10d::AllreduceOptions to = options;
    const auto host = add_reduced(op, tensor, to.reduceOp, Use::read_and_write);
    op.posts.push_back([host, to](c10d::Backend& gloo) {
      Tensors list{host};
      return gloo.allreduce(list, to);
    });
  }
  op.outputs = tensors;
  return run(std::move(op), options.asyncOp);
}

StagedBackend::WorkPtr StagedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  auto op = operation("reduce", OpType::REDUCE);
  check_rank(op.name, options.rootRank);
  auto to = options;
  const auto use = options.rootRank == rank_ ? Use::read_and_write : Use::read;
  const auto& tensor = only(op.name, tensors);
  auto host = add_reduced(op, tensor, to.reduceOp, use);
  // gloo leaves partial sums in its input. If the caller's tensor is on the host, gloo gets a copy,
  // because only the root's tensor may change.
  if (use == Use::read && tensor.device().is_cpu()) host = host.clone();
  op.posts.push_back([host, to](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.reduce(list, to);
  });
  op.outputs = tensors;
  return run(std::move(op), options.asyncOp);
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  auto op = operation("reduce_scatter", OpType::REDUCE_SCATTER);
  check_lists(op.name, inputs, outputs);
  auto to = options;
  const auto host = add_reduced(op, outputs[0], to.reduceOp, Use::write);
  Tensors parts;
  for (const auto& input : inputs[0]) {
    const auto part = op.staging->add(input, Use::read);
    parts.push_back(c10::isComplexType(part.scalar_type()) ? at::view_as_real(part) : part);
  }
  op.posts.push_back([host, parts, to](c10d::Backend& gloo) {
    Tensors out{host};
    Lists in{parts};
    return gloo.reduce_scatter(out, in, to);
  });
  op.outputs = outputs;
  return run(std::move(op), options.asyncOp);
}

StagedBackend::WorkPtr StagedBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  auto op = operation("reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_multiple(op.name, inputs.at(i), outputs[i]);
    auto to = options;
    const auto host = add_reduced(op, outputs[i], to.reduceOp, Use::write);
    auto all = op.staging->add(inputs[i], Use::read);
    if (c10::isComplexType(all.scalar_type())) all = at::view_as_real(all);
    const auto flat = host.view({-1});
    op.posts.push_back([flat, all, to, size = size_](c10d::Backend& gloo) {
      Tensors out{flat};
      Lists in{all.view({-1}).chunk(size)};
      return gloo.reduce_scatter(out, in, to);
    });
  }
  op.outputs = outputs;
  return run(std::move(op), options.asyncOp);
}

}  // namespace anyaccel::comm
