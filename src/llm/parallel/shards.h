// The ranks that run one model together, and what they exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

#include "anyaccel/comm.h"
#include "llm/model/weights.h"
#include "llm/parallel/plan.h"

namespace anyaccel::llm {

/// What a forward pass asks of the other ranks; all of them ask the same in the same order. Not
/// thread-safe.
class Shards {
 public:
  Shards(comm::ProcessGroup group, const ModelConfig& config, const ParallelPlan& plan);

  int rank() const noexcept { return group_.rank(); }
  int size() const noexcept { return group_.size(); }
  /// The sum of all ranks' results, where that block is split.
  at::Tensor after_attention(const at::Tensor& part) { return attention_ ? add_up(part) : part; }
  at::Tensor after_feed_forward(const at::Tensor& part) {
    return feed_forward_ ? add_up(part) : part;
  }
  at::Tensor embed(const at::Tensor& table, const at::Tensor& ids);
  /// Of all tokens, the same bits on every rank.
  at::Tensor all_logits(const at::Tensor& part);
  /// By which an op adds up in the middle of its work, and what it adds: 1 after attention, 2 after
  /// the feed-forward part. An empty name where it cannot, or there is nothing to add.
  std::pair<std::string, std::int64_t> sums();
  /// Whether any rank says so.
  bool any(bool value);
  void barrier() { group_.barrier(); }

 private:
  at::Tensor add_up(const at::Tensor& part);
  comm::ProcessGroup group_;
  bool attention_, feed_forward_, vocabulary_;
  std::int64_t vocab_size_;
  Slice tokens_;
};

/// Names and shapes of a configuration's tensors. Takes no memory.
std::vector<TensorShape> tensor_shapes(const ModelConfig& config);

/// Copies the rank's part of a tensor; no byte of the others' parts is read.
void copy_part(const at::Tensor& target, const at::Tensor& whole, const TensorPlan& plan);

}  // namespace anyaccel::llm
