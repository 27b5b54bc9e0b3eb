// One backend for all ranks of a group.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace anyaccel::comm {

/// What a rank would have: the accelerator's communication_backend_name() where `automatic`, else what the program named.
struct BackendWish {
  std::string name;
  bool automatic;
};

/// Called by all ranks, with a store of their own. Hosts differ in what is installed, and ranks that wait in different backends wait for
/// ever: where all wishes are automatic, and oneCCL is not every rank's, all take gloo. Other differences are `invalid_argument` on all
/// ranks, which names two of them; what the store throws comes out of here.
std::string agree_on_backend(c10d::Store& store, int rank, int size, const BackendWish& wish);

}  // namespace anyaccel::comm
