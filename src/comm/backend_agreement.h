// Makes all ranks of a group agree on one backend.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace anyaccel::comm {

/// A rank's preferred backend: communication_backend_name() of the accelerator if `automatic`,
/// otherwise the name that the program passed.
struct BackendPreference {
  std::string name;
  bool automatic;
};

/// Returns the backend that all ranks use. All ranks must call it, with a store that nothing else
/// uses. The software on the hosts may differ, and ranks with different backends would wait for
/// each other forever. If all preferences are automatic and some ranks lack oneCCL, all ranks use
/// gloo. Any other mismatch throws `invalid_argument` on all ranks, and the message names two ranks
/// that differ. Exceptions from the store are propagated.
std::string agree_on_backend(c10d::Store& store, int rank, int size,
                             const BackendPreference& preference);

/// Returns the reason why this rank cannot load the shared-memory op, or an empty string if it can.
std::string shared_memory_obstacle();

/// Returns "rank N: " and `mine` of the lowest rank N whose `mine` is not empty, or an empty string
/// if all are empty. All ranks must call this once per store. All ranks get the same result.
/// Exceptions from the store are propagated.
std::string first_obstacle(c10d::Store& store, int rank, int size, const std::string& mine);

}  // namespace anyaccel::comm
