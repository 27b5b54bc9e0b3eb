// Shared memory as the host backend of a StagedBackend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <optional>

#include "anyaccel/comm.h"
#include "anyaccel/ops/shm_comm.h"

namespace anyaccel::comm {

/// Returns the ReduceOp with which ShareMemComm performs this reduction in one call, or nullopt if
/// it takes additional steps.
std::optional<ReduceOp> direct_reduction(c10d::ReduceOp::RedOpType reduce, c10::ScalarType type);

/// Throws `unsupported` if the backend does not support this reduction of this dtype. `name`: the
/// operation's name, for the message.
void check_shared_reduction(const char* name, c10d::ReduceOp::RedOpType reduce,
                            c10::ScalarType type);

/// Creates a host backend for StagedBackend that runs collectives over shared memory. Tensors must
/// be contiguous and on the host. Collectives run in wait(), in the order of the wait() calls.
/// Supports every reduction that
/// check_shared_reduction() accepts. `gloo` runs gather, scatter, all-to-all, and sends and
/// receives.
c10::intrusive_ptr<c10d::Backend> make_shm_host(std::shared_ptr<ops::ShareMemComm> memory,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options);

}  // namespace anyaccel::comm
