// oneCCL's collectives as the backend for host tensors behind a StagedBackend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "anyaccel/comm.h"

namespace anyaccel::comm {

/// Takes contiguous host tensors, as StagedBackend gives them; works do what they do in wait(), in
/// the order of those calls. `gloo` serves what oneCCL lacks. A call of all ranks; `unavailable` on
/// all when oneCCL cannot be had on one.
c10::intrusive_ptr<c10d::Backend> make_ccl_host(const c10::intrusive_ptr<c10d::Store>& store,
                                                c10::intrusive_ptr<c10d::Backend> gloo,
                                                const GroupOptions& options);

}  // namespace anyaccel::comm
