// Implements each c10d operation with Staging and the host backend. Operations that do no
// arithmetic treat tensors as raw bytes, so they support every dtype.
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
    fail("PREMUL_SUM is not supported", "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR");
  if (!reducible(type))
    fail("this dtype cannot be reduced",
         "float32, float64, float16, bfloat16, int8, uint8, int32, int64, bool, complex64 or "
         "complex128");
  if (c10::isComplexType(type) && !sums)
    fail("complex numbers can only be summed or averaged", "SUM or AVG");
  if (average && !c10::isFloatingType(type) && !c10::isComplexType(type))
    fail("AVG requires a floating-point dtype", "a floating-point dtype");
  if (bitwise && !c10::isIntegralType(type, /*includeBool=*/true))
    fail("bitwise reductions require an integer dtype", "an integer dtype");
  auto host = operation.staging->add(tensor, use);
  if (average && use != Use::read) {
    operation.finish_on_host = [host, size = size_, before = operation.finish_on_host]() mutable {
      if (before) before();
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
  return run(std::move(op));
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
  return run(std::move(op));
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
  return run(std::move(op));
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
  return run(std::move(op));
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
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::broadcast(Tensors& tensors,
                                                const c10d::BroadcastOptions& options) {
  auto op = operation("broadcast", OpType::BROADCAST);
  check_rank(op.name, options.rootRank);
  const auto host = op.staging->add_bytes(only(op.name, tensors),
                                          options.rootRank == rank_ ? Use::read : Use::write);
  op.posts.push_back([host, options](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.broadcast(list, options);
  });
  op.outputs = tensors;
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::allgather(Lists& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  auto op = operation("all_gather", OpType::ALLGATHER);
  check_lists(op.name, outputs, inputs);
  const auto host = op.staging->add_bytes(inputs[0], Use::read);
  Tensors parts;
  for (const auto& output : outputs[0]) parts.push_back(op.staging->add_bytes(output, Use::write));
  op.posts.push_back([host, parts, options](c10d::Backend& gloo) {
    Lists out{parts};
    Tensors in{host};
    return gloo.allgather(out, in, options);
  });
  op.outputs = outputs[0];
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

StagedBackend::WorkPtr StagedBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  auto op = operation("all_gather_into_tensor", OpType::_ALLGATHER_BASE);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_multiple(op.name, outputs[i], inputs.at(i));
    const auto host = op.staging->add_bytes(inputs[i], Use::read);
    const auto all = op.staging->add_bytes(outputs[i], Use::write);
    op.posts.push_back([host, all, options, size = size_](c10d::Backend& gloo) {
      Lists out{all.chunk(size)};
      Tensors in{host};
      return gloo.allgather(out, in, options);
    });
  }
  op.outputs = outputs;
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  auto op = operation("all_gather_coalesced", OpType::ALLGATHER_COALESCED);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto host = op.staging->add_bytes(inputs[i], Use::read);
    Tensors parts;
    for (auto& rank : outputs) {
      parts.push_back(op.staging->add_bytes(rank.at(i), Use::write));
      op.outputs.push_back(rank[i]);
    }
    op.posts.push_back([host, parts, options](c10d::Backend& gloo) {
      Lists out{parts};
      Tensors in{host};
      return gloo.allgather(out, in, options);
    });
  }
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::gather(Lists& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& options) {
  auto op = operation("gather", OpType::GATHER);
  check_rank(op.name, options.rootRank);
  Tensors parts;
  if (options.rootRank == rank_) {
    check_lists(op.name, outputs, inputs);
    for (const auto& output : outputs[0])
      parts.push_back(op.staging->add_bytes(output, Use::write));
    op.outputs = outputs[0];
  }
  const auto host = op.staging->add_bytes(only(op.name, inputs), Use::read);
  op.posts.push_back([host, parts, options](c10d::Backend& gloo) {
    Lists out;
    if (!parts.empty()) out.push_back(parts);
    Tensors in{host};
    return gloo.gather(out, in, options);
  });
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::scatter(Tensors& outputs, Lists& inputs,
                                              const c10d::ScatterOptions& options) {
  auto op = operation("scatter", OpType::SCATTER);
  check_rank(op.name, options.rootRank);
  Tensors parts;
  if (options.rootRank == rank_) {
    check_lists(op.name, inputs, outputs);
    for (const auto& input : inputs[0]) parts.push_back(op.staging->add_bytes(input, Use::read));
  }
  const auto host = op.staging->add_bytes(only(op.name, outputs), Use::write);
  op.posts.push_back([host, parts, options](c10d::Backend& gloo) {
    Tensors out{host};
    Lists in;
    if (!parts.empty()) in.push_back(parts);
    return gloo.scatter(out, in, options);
  });
  op.outputs = outputs;
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits,
                                                    const c10d::AllToAllOptions& options) {
  auto op = operation("all_to_all_single", OpType::ALLTOALL_BASE);
  // Converts splits in rows to splits in bytes.
  const auto in_bytes = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits) {
    const auto rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    auto sizes = splits;
    if (sizes.empty()) sizes.assign(size_, rows / size_);
    int64_t sum = 0;
    for (auto& rows_of_rank : sizes) {
      sum += rows_of_rank;
      rows_of_rank *= rows == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / rows;
    }
    if (sum != rows || std::ssize(sizes) != size_)
      throw Error(
          ErrorCode::invalid_argument, op.name,
          {.what = "the splits do not add up to the size of the first dimension",
           .got = std::to_string(sizes.size()) + " splits of " + std::to_string(sum) + " rows",
           .want = std::to_string(size_) + " splits of " + std::to_string(rows) + " rows"});
    return sizes;
  };
  const auto to = in_bytes(output, output_splits);
  const auto from = in_bytes(input, input_splits);
  const auto in = op.staging->add_bytes(input, Use::read);
  const auto out = op.staging->add_bytes(output, Use::write);
  op.posts.push_back([in, out, to, from, options](c10d::Backend& gloo) mutable {
    auto target = out;
    auto source = in;
    auto target_splits = to;
    auto source_splits = from;
    return gloo.alltoall_base(target, source, target_splits, source_splits, options);
  });
  op.outputs = {output};
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& options) {
  auto op = operation("all_to_all", OpType::ALLTOALL);
  check_lists(op.name, {outputs}, {at::Tensor()});
  check_lists(op.name, {inputs}, {at::Tensor()});
  // Use a single all-to-all of bytes: every rank concatenates what it sends to the others.
  auto packed = std::make_shared<std::pair<at::Tensor, at::Tensor>>();
  auto to = std::make_shared<std::vector<int64_t>>();
  auto from = std::make_shared<std::vector<int64_t>>();
  Tensors in;
  Tensors out;
  for (const auto& input : inputs) {
    in.push_back(op.staging->add_bytes(input, Use::read));
    from->push_back(in.back().numel());
  }
  for (const auto& output : outputs) {
    out.push_back(op.staging->add_bytes(output, Use::write));
    to->push_back(out.back().numel());
  }
  op.posts.push_back([in, out, to, from, packed, options](c10d::Backend& gloo) {
    int64_t received = 0;
    int64_t sent = 0;
    for (const auto bytes : *to) received += bytes;
    for (const auto bytes : *from) sent += bytes;
    packed->first = in[0].new_empty({sent});
    packed->second = out[0].new_empty({received});
    int64_t offset = 0;
    for (const auto& part : in) {
      packed->first.narrow(0, offset, part.numel()).copy_(part);
      offset += part.numel();
    }
    return gloo.alltoall_base(packed->second, packed->first, *to, *from, options);
  });
  op.finish_on_host = [out, packed] {
    int64_t offset = 0;
    for (const auto& part : out) {
      part.copy_(packed->second.narrow(0, offset, part.numel()));
      offset += part.numel();
    }
  };
  op.outputs = outputs;
  return run(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::send(Tensors& tensors, int rank, int tag) {
  auto op = operation("send", OpType::SEND);
  check_rank(op.name, rank);
  const auto host = op.staging->add_bytes(only(op.name, tensors), Use::read);
  op.posts.push_back([host, rank, tag](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.send(list, rank, tag);
  });
  return run_beside(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::recv(Tensors& tensors, int rank, int tag) {
  auto op = operation("recv", OpType::RECV);
  check_rank(op.name, rank);
  const auto host = op.staging->add_bytes(only(op.name, tensors), Use::write);
  op.posts.push_back([host, rank, tag](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.recv(list, rank, tag);
  });
  op.outputs = tensors;
  return run_beside(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::recvAnysource(Tensors& tensors, int tag) {
  auto op = operation("recv", OpType::RECVANYSOURCE);
  const auto host = op.staging->add_bytes(only(op.name, tensors), Use::write);
  op.posts.push_back([host, tag](c10d::Backend& gloo) {
    Tensors list{host};
    return gloo.recvAnysource(list, tag);
  });
  op.outputs = tensors;
  return run_beside(std::move(op));
}

StagedBackend::WorkPtr StagedBackend::barrier(const c10d::BarrierOptions& options) {
  auto op = operation("barrier", OpType::BARRIER);
  op.posts.push_back([options](c10d::Backend& gloo) { return gloo.barrier(options); });
  // The barrier also waits for work that is already queued on the devices.
  get_accelerator().synchronize();
  return run(std::move(op));
}

void StagedBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) {
  auto op = operation("monitored_barrier", OpType::BARRIER);
  op.posts.push_back([options, wait_all](c10d::Backend& gloo) {
    gloo.monitoredBarrier(options, wait_all);
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
    done->markCompleted();
    return c10d::Work::create_from_future(done);
  });
  run(std::move(op))->wait();
}

}  // namespace anyaccel::comm
