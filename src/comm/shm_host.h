// Shared memory as the host backend of a StagedBackend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <optional>

#include "anyaccel/comm.h"
#include "anyaccel/ops/shm_comm.h"

namespace anyaccel::comm {

/// Returns the reduction that shared memory performs in place, or nullopt if the reduction needs
/// further steps.
std::optional<ReduceOp> direct_reduction(c10d::ReduceOp::RedOpType reduce, c10::ScalarType type);

/// Throws `unsupported`, with `name` as the name of the operation, if make_shm_host() cannot reduce
/// the dtype.
void check_shared_reduction(const char* name, c10d::ReduceOp::RedOpType reduce,
                            c10::ScalarType type);

/// Takes contiguous host tensors, as StagedBackend passes them. Collectives over shared memory run
/// in wait(), in the order of the wait() calls. Supports every reduction that
/// check_shared_reduction() accepts. `gloo` runs gather, scatter, all-to-all, and sends and
/// receives.
c10::intrusive_ptr<c10d::Backend> make_shm_host(std::shared_ptr<ops::ShareMemComm> memory,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options);

}  // namespace anyaccel::comm
