// The ranks that train one model together, and what each does of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/comm.h"

namespace anyaccel::llm {

/// A rank's part of the global batch.
struct BatchShare {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  /// What its mean loss is multiplied with, so that the mean over ranks is the mean over the batch.
  /// 1 where all have equal parts.
  double weight = 1;
};

/// Parts differ by one sequence at most; the first ranks have the larger ones. `invalid_argument`
/// when a rank would have none.
BatchShare share_of_batch(std::int64_t batch, int rank, int size);

/// What all ranks know after a step.
struct StepNews {
  double loss = 0;     ///< mean over the global batch
  double seconds = 0;  ///< of rank 0's clock
  bool stop = false;   ///< a rank was asked to
};

/// One rank, or those of a job whose launcher says that there are several. What is read and written
/// beside the data is rank 0's affair.
class Ranks {
 public:
  /// Finds the others where WORLD_SIZE is above 1: the errors are those of init_process_group().
  Ranks();

  int rank() const noexcept { return group_ ? group_->rank() : 0; }
  int size() const noexcept { return group_ ? group_->size() : 1; }
  bool first() const noexcept { return rank() == 0; }
  /// Null for one rank.
  comm::ProcessGroup* group() noexcept { return group_ ? &*group_ : nullptr; }

  /// Rank 0's text, numbers, or values of tensors, on all. With one rank nothing happens.
  std::string from_first(std::string text);
  void from_first(const std::vector<at::Tensor>& tensors);
  /// Of each rank's mean loss over its share, its clock and its wish.
  StepNews exchange(double loss, const BatchShare& share, double seconds, bool stop);
  /// `invalid_argument` on the ranks whose number is not rank 0's.
  void check_same_data(std::uint64_t fingerprint, const std::string& source);
  /// True when the tensors have the same bits on all ranks; collective, the same answer on each.
  /// Copies one after the other to the host.
  bool all_have(const std::vector<at::Tensor>& tensors);
  void barrier();

 private:
  std::optional<comm::ProcessGroup> group_;
};

}  // namespace anyaccel::llm
