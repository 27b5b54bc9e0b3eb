#include "llm/quantize/formats.h"

#include <utility>

#include "llm/quantize/stored_weights.h"

namespace anyaccel::llm {

namespace {

const void* memory_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

}  // namespace

WeightPieces::WeightPieces(const Weights& weights, const ModelConfig& config,
                           const ParallelPlan* plan) {
  std::unordered_map<std::string, const TensorPlan*> plans;
  if (plan) {
    for (const TensorPlan& tensor : plan->tensors) plans[tensor.name] = &tensor;
  }
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    const std::size_t place = places_.emplace(memory_of(tensor), pieces_.size()).first->second;
    if (place == pieces_.size()) pieces_.emplace_back();
    pieces_[place].push_back(
        {plan ? *plans.at(name) : TensorPlan{.name = name, .shape = tensor.sizes().vec()}, tensor});
  });
}

std::vector<WeightPiece> WeightPieces::take(const at::Tensor& matrix) {
  const auto found = places_.find(memory_of(matrix));
  return found == places_.end() ? std::vector<WeightPiece>()
                                : std::exchange(pieces_[found->second], {});
}

std::optional<IntegerFormat> stored_format(const StoredWeights& stored,
                                           const std::vector<WeightPiece>& pieces) {
  std::optional<IntegerFormat> out;
  for (const WeightPiece& piece : pieces) {
    const auto form = stored.form(piece.part);
    if (!form || (out && *out != *form)) return std::nullopt;
    out = form;
  }
  return out;
}

std::optional<IntegerFormat> requested_format(const at::Tensor& matrix,
                                              const std::vector<WeightPiece>& pieces,
                                              const LoadOptions& options) {
  const TensorPlan& part = pieces.front().part;
  const std::int64_t inputs = matrix.size(1);
  const bool cut = part.style == ShardStyle::row && !part.parts.empty();
  const std::int64_t begin = cut ? part.parts.front().begin : 0;
  std::int64_t group = group_size(cut ? part.shape[part.dim] : inputs, options.group_size);
  if (group == 0) return std::nullopt;
  if (begin % group != 0 || inputs % group != 0) {
    if (options.group_size != 0) return std::nullopt;
    group = inputs % 64 == 0 ? 64 : inputs % 32 == 0 ? 32 : 0;
  }
  return group == 0 ? std::nullopt : std::optional(IntegerFormat{options.bits, group});
}

std::int64_t inner_group(const ModelConfig& config, const std::vector<TensorShape>& shapes,
                         const StoredWeights& stored, const LoadOptions& options) {
  const std::int64_t inner = config.intermediate_size;
  if (options.bits) return group_size(inner, options.group_size);
  for (const auto& [name, shape] : shapes) {
    if (!is_second_inner(name) || !stored.is_integer(name)) continue;
    const std::int64_t group = stored.group({.name = name, .shape = shape});
    // If one scale covers all inputs, they can be split at any position.
    return group == inner ? group_size(inner, 0) : group_size(inner, group);
  }
  return 0;
}

std::map<std::string, IntegerFormat> planned_formats(const ParallelPlan& plan,
                                                     const StoredWeights& stored,
                                                     const LoadOptions& options) {
  std::map<std::string, IntegerFormat> out;
  if (!options.bits && !stored.quantized()) return out;
  Weights weights = make_weights(plan.local, c10::kFloat, c10::Device(c10::kMeta));
  WeightPieces all(weights, plan.local, &plan);
  each_matrix(weights, [&](const std::string&, at::Tensor& weight, Scales&) {
    // A tied head is quantized into a separate matrix; the tensor with this name stays
    // floating-point.
    if (weight.is_same(weights.embedding)) return;
    const std::vector<WeightPiece> pieces = all.take(weight);
    const auto form =
        options.bits ? requested_format(weight, pieces, options) : stored_format(stored, pieces);
    for (const WeightPiece& piece : pieces) {
      if (form) out[piece.part.name] = *form;
    }
  });
  return out;
}

}  // namespace anyaccel::llm
