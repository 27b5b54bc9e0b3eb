// The ranks that train one model, and how they communicate.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/comm.h"

namespace anyaccel::llm {

/// A rank's part of the global batch.
struct BatchShare {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  /// Factor for the rank's mean loss, so that the mean over ranks equals the mean over the batch. 1
  /// if all parts have the same size.
  double weight = 1;
};

/// Returns a rank's part of the batch. Parts differ by at most one sequence; the first ranks get
/// the larger parts. Throws `invalid_argument` if there are fewer sequences than ranks.
BatchShare share_of_batch(std::int64_t batch, int rank, int size);

/// Results of a step, the same on all ranks.
struct StepNews {
  double loss = 0;     ///< mean over the global batch
  double seconds = 0;  ///< measured by rank 0
  bool stop = false;   ///< true if a stop was requested on any rank
};

/// A single rank, or the ranks of a job started by a launcher. Except for the training data, only
/// rank 0 reads and writes files.
class Ranks {
 public:
  /// Finds the other ranks if WORLD_SIZE is above 1. Throws the same errors as
  /// init_process_group().
  Ranks();

  int rank() const noexcept { return group_ ? group_->rank() : 0; }
  int size() const noexcept { return group_ ? group_->size() : 1; }
  bool first() const noexcept { return rank() == 0; }
  /// Returns null if there is only one rank.
  comm::ProcessGroup* group() noexcept { return group_ ? &*group_ : nullptr; }

  /// Broadcasts rank 0's text or tensor contents. A no-op with one rank.
  std::string from_first(std::string text);
  void from_first(const std::vector<at::Tensor>& tensors);
  /// Combines the ranks' mean losses over their parts of the batch and their stop requests. Returns
  /// rank 0's `seconds`.
  StepNews exchange(double loss, const BatchShare& share, double seconds, bool stop);
  /// Throws `invalid_argument` on a rank whose fingerprint differs from rank 0's.
  void check_same_data(std::uint64_t fingerprint, const std::string& source);
  /// Returns whether the tensors are bitwise equal on all ranks. Collective; all ranks get the same
  /// result. Copies one tensor at a time to the host.
  bool all_have(const std::vector<at::Tensor>& tensors);
  void barrier();
  /// Runs a function that contains no collectives. If it throws on some ranks, throws on all ranks;
  /// the error on ranks that succeeded names the first rank that failed. Collective.
  void together(const std::function<void()>& function);

 private:
  std::optional<comm::ProcessGroup> group_;
};

/// Calls a function. In a job of several ranks, its exceptions name the rank of this process.
void naming_rank(const std::function<void()>& function);

}  // namespace anyaccel::llm
