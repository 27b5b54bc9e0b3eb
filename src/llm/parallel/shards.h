// Communication between the ranks that share a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

#include "anyaccel/comm.h"
#include "llm/model/weights.h"
#include "llm/parallel/plan.h"

namespace anyaccel::llm {

/// Collectives in a forward pass. All ranks must make the same calls in the same order. Not
/// thread-safe.
class Shards {
 public:
  Shards(comm::ProcessGroup group, const ModelConfig& config, const ParallelPlan& plan);

  int rank() const noexcept { return group_.rank(); }
  int size() const noexcept { return group_.size(); }
  /// All-reduces the partial results if the block is split.
  at::Tensor after_attention(const at::Tensor& part) { return attention_ ? add_up(part) : part; }
  at::Tensor after_feed_forward(const at::Tensor& part) {
    return feed_forward_ ? add_up(part) : part;
  }
  at::Tensor embed(const at::Tensor& table, const at::Tensor& ids);
  /// Returns the logits of the whole vocabulary, bitwise equal on every rank.
  at::Tensor all_logits(const at::Tensor& part);
  /// Returns the name of the shared-memory group for ops that all-reduce internally, and a bit mask
  /// of the all-reduces to perform: 1 after attention, 2 after the feed-forward layer. The name is
  /// empty if there is no shared memory or no all-reduce.
  std::pair<std::string, std::int64_t> sums();
  /// Returns whether `value` is true on any rank.
  bool any(bool value);
  void barrier() { group_.barrier(); }

 private:
  at::Tensor add_up(const at::Tensor& part);
  comm::ProcessGroup group_;
  bool attention_, feed_forward_, vocabulary_;
  std::int64_t vocab_size_;
  Slice tokens_;
};

/// Returns the names and shapes of the tensors in a model with this configuration. Does not
/// allocate memory for them.
std::vector<TensorShape> tensor_shapes(const ModelConfig& config);

/// Copies the rank's part of a tensor. Does not read other ranks' parts.
void copy_part(const at::Tensor& target, const at::Tensor& whole, const TensorPlan& plan);

}  // namespace anyaccel::llm
