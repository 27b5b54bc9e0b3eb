// Reads the index tensors of ops that access individual rows, so that the checker can compare rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>

#include "backends/sim/call.h"
#include "backends/sim/check/rows.h"

namespace anyaccel::backends::sim {

/// The rows that a launched op accesses. The stream's worker reads the index tensor just before the
/// op runs.
class IndexRows final : public checking::Rows {
 public:
  /// `tensor`: the tensor whose rows are accessed. `index`: the host's alias of the index tensor.
  IndexRows(const at::Tensor& tensor, int of_dim, at::Tensor index, SimStream& stream);

  const c10::TensorImpl* tensor() const noexcept { return tensor_; }
  /// The op is in its stream's queue: only the worker may read the index tensor from now on.
  void submitted();
  /// Stores the values of the index tensor. Later calls have no effect.
  void read();
  std::optional<std::vector<std::int64_t>> values() override;

 private:
  void read_locked();

  const c10::TensorImpl* tensor_;
  const std::int64_t size_;
  SimStream& stream_;
  std::mutex mutex_;
  at::Tensor index_;
  bool submitted_ = false;
  bool read_ = false;
  std::optional<std::vector<std::int64_t>> values_;
};

/// The rows that a call accesses; null if it accesses whole tensors or is being captured.
std::shared_ptr<IndexRows> index_rows(const Call& call);

}  // namespace anyaccel::backends::sim
