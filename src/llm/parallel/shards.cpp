#include "llm/parallel/shards.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>

#include <string>
#include <utility>
#include <vector>

namespace anyaccel::llm {

Shards::Shards(comm::ProcessGroup group, const ModelConfig& config, const ParallelPlan& plan)
    : group_(std::move(group)),
      attention_(plan.attention),
      feed_forward_(plan.feed_forward),
      vocabulary_(plan.vocabulary),
      vocab_size_(config.vocab_size),
      tokens_(plan.tokens) {}

at::Tensor Shards::add_up(const at::Tensor& part) {
  at::Tensor sum = part.contiguous();
  group_.all_reduce(sum);
  return sum;
}

at::Tensor Shards::embed(const at::Tensor& table, const at::Tensor& ids) {
  if (!vocabulary_) return at::embedding(table, ids);
  const at::Tensor local = ids.sub(tokens_.begin);
  const at::Tensor others = local.lt(0).logical_or(local.ge(tokens_.count));
  return add_up(
      at::embedding(table, local.masked_fill(others, 0)).masked_fill(others.unsqueeze(-1), 0));
}

at::Tensor Shards::all_logits(const at::Tensor& part) {
  if (!vocabulary_) {
    // Make the logits bitwise equal on all ranks, because each rank samples from them.
    group_.broadcast(part, 0);
    return part;
  }
  const std::int64_t most = balanced(vocab_size_, 0, size()).count;
  const bool even = vocab_size_ % size() == 0;
  const at::Tensor mine =
      even ? part.contiguous() : at::constant_pad_nd(part, {0, most - part.size(2)});
  const at::Tensor all = group_.all_gather(mine.view({1, -1, most}));  // [ranks, tokens, most]
  if (even) return all.transpose(0, 1).reshape({part.size(0), part.size(1), vocab_size_});
  std::vector<at::Tensor> parts;
  for (std::int64_t rank = 0; rank < size(); ++rank)
    parts.push_back(all[rank].narrow(1, 0, balanced(vocab_size_, rank, size()).count));
  return at::cat(parts, 1).view({part.size(0), part.size(1), vocab_size_});
}

std::pair<std::string, std::int64_t> Shards::sums() {
  const std::int64_t sums = (attention_ ? 1 : 0) + (feed_forward_ ? 2 : 0);
  if (sums == 0) return {};
  std::string name = group_.shared_memory_name();
  return name.empty() ? std::pair<std::string, std::int64_t>() : std::pair(std::move(name), sums);
}

bool Shards::any(bool value) {
  const at::Tensor most = at::full({1}, value ? 1.0 : 0.0, at::TensorOptions().dtype(c10::kFloat));
  group_.all_reduce(most, comm::ReduceOp::max);
  return most.item<float>() > 0;
}

std::vector<TensorShape> tensor_shapes(const ModelConfig& config) {
  const Weights weights = make_weights(config, c10::kFloat, c10::Device(c10::kMeta));
  std::vector<TensorShape> out;
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    out.emplace_back(name, tensor.sizes().vec());
  });
  return out;
}

void copy_part(const at::Tensor& target, const at::Tensor& whole, const TensorPlan& plan) {
  if (plan.parts.empty()) {
    target.copy_(whole);
    return;
  }
  const auto dim = static_cast<std::int64_t>(plan.dim);
  std::int64_t begin = 0;
  for (const Slice& part : plan.parts) {
    target.narrow(dim, begin, part.count).copy_(whole.narrow(dim, part.begin, part.count));
    begin += part.count;
  }
}

}  // namespace anyaccel::llm
