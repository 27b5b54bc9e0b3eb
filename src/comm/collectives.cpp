// Implements the c10d operations that only move data, with Staging and the host backend. They treat
// tensors as raw bytes, so they support every dtype. The reductions are in reductions.cpp.
#include "anyaccel/error.h"
#include "comm/staged.h"

namespace anyaccel::comm {

using c10d::OpType;

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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
      throw Error(ErrorCode::invalid_argument, op.name,
                  {.what = "the splits do not add up to the size of the first dimension",
                   .got = std::to_string(sizes.size()) + " splits with " + std::to_string(sum) +
                          " rows in total",
                   .want = std::to_string(size_) + " splits with " + std::to_string(rows) +
                           " rows in total"});
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
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
  return run(std::move(op), options.asyncOp);
}

void StagedBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) {
  auto op = operation("monitored_barrier", OpType::BARRIER);
  op.posts.push_back([options, wait_all](c10d::Backend& gloo) {
    gloo.monitoredBarrier(options, wait_all);
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
    done->markCompleted();
    return c10d::Work::create_from_future(done);
  });
  run(std::move(op), options.asyncOp)->wait();
}

}  // namespace anyaccel::comm
