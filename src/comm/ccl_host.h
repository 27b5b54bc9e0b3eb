// oneCCL's collectives as the host backend of a StagedBackend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "anyaccel/comm.h"

namespace anyaccel::comm {

/// Takes contiguous host tensors, as StagedBackend passes them. Operations run in wait(), in the
/// order of the wait() calls. `gloo` runs the operations that oneCCL does not support. All ranks
/// must call this function. Throws `unavailable` on all ranks if oneCCL is missing on one of them.
c10::intrusive_ptr<c10d::Backend> make_ccl_host(const c10::intrusive_ptr<c10d::Store>& store,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options);

}  // namespace anyaccel::comm
