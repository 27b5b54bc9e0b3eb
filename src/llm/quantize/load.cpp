#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <map>
#include <vector>

#include "llm/model/weights.h"
#include "llm/parallel/shards.h"
#include "llm/quantize/formats.h"
#include "llm/quantize/stored_weights.h"
#include "llm/support/large_pages.h"

namespace anyaccel::llm {

namespace {

/// Concatenates the rows of the tensors that form a matrix.
QuantizedMatrix join(const StoredWeights& stored, const std::vector<WeightPiece>& pieces) {
  std::vector<at::Tensor> weights, scales, zeros;
  for (const WeightPiece& piece : pieces) {
    const QuantizedMatrix part = stored.integers(piece.part);
    weights.push_back(part.weight);
    scales.push_back(part.scales.scales);
    if (part.scales.zeros.defined()) zeros.push_back(part.scales.zeros);
  }
  QuantizedMatrix out{at::cat(weights), {at::cat(scales), {}}};
  if (!zeros.empty()) out.scales.zeros = at::cat(zeros);
  if (out.scales.zeros.defined() && out.scales.zeros.eq(8).all().item<bool>())
    out.scales.zeros.reset();
  return out;
}

void copy_floats(const StoredWeights& stored, const WeightPiece& piece) {
  if (!piece.part.present) {
    piece.target.zero_();
  } else if (stored.is_integer(piece.part.name)) {
    piece.target.copy_(stored.floats(piece.part));
  } else {
    copy_part(piece.target, stored.floats(piece.part.name, piece.part.shape), piece.part);
  }
}

/// Returns the tensor in the mapped file if it can be used without a copy.
std::optional<at::Tensor> in_place(const StoredWeights& stored, const WeightPiece& piece) {
  const TensorPlan& part = piece.part;
  if (!part.present || part.parts.size() > 1 || (!part.parts.empty() && part.dim != 0))
    return std::nullopt;
  at::Tensor value = stored.floats(part.name, part.shape);
  if (value.scalar_type() != piece.target.scalar_type() || !piece.target.is_cpu() ||
      !piece.target.is_contiguous())
    return std::nullopt;
  if (!part.parts.empty()) value = value.narrow(0, part.parts[0].begin, part.parts[0].count);
  return value;
}

/// Uses mapped memory for a tensor that the file stores whole, or for a matrix whose parts the file
/// stores separately. Returns false if the tensor must be copied.
bool use_in_place(const StoredWeights& stored, const std::vector<WeightPiece>& pieces,
                  at::Tensor& tensor, std::vector<at::Tensor>* parts) {
  if (pieces.size() > 1 && !parts) return false;
  std::vector<at::Tensor> found;
  for (const WeightPiece& piece : pieces) {
    const auto value = in_place(stored, piece);
    if (!value) return false;
    found.push_back(*value);
  }
  if (found.size() > 1) {
    *parts = std::move(found);
    tensor.reset();
    return true;
  }
  if (found[0].sizes() != tensor.sizes()) return false;
  tensor = found[0];
  return true;
}

}  // namespace

void load(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
          const ParallelPlan* plan) {
  const c10::AutoGradMode no_gradient(false);
  WeightPieces all(weights, config, plan);
  each_matrix(weights, [&](const std::string&, at::Tensor& weight, Scales& scales) {
    if (!stored.quantized() || weight.is_same(weights.embedding)) return;
    const std::vector<WeightPiece> pieces = all.take(weight);
    if (!stored_format(stored, pieces)) {
      for (const WeightPiece& piece : pieces) copy_floats(stored, piece);
      return;
    }
    const QuantizedMatrix made = join(stored, pieces);
    const c10::Device device = weight.device();
    weight = made.weight.to(device);
    scales.scales = made.scales.scales.to(device);
    if (made.scales.zeros.defined()) scales.zeros = made.scales.zeros.to(device);
    weights.quantized = true;
  });
  all.each_left([&](const WeightPiece& piece) { copy_floats(stored, piece); });
}

void load_mapped(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
                 const ParallelPlan* plan) {
  const c10::AutoGradMode no_gradient(false);
  WeightPieces all(weights, config, plan);
  std::map<const at::Tensor*, std::vector<at::Tensor>*> parts;
  for (LayerWeights& layer : weights.layers) {
    parts[&layer.qkv] = &layer.qkv_parts;
    parts[&layer.gate_up] = &layer.gate_up_parts;
  }
  const bool tied = weights.head.is_same(weights.embedding);
  LargePages memory;
  each_parameter(weights, [&](const std::string&, at::Tensor& tensor) {
    const std::vector<WeightPiece> pieces = all.take(tensor);
    if (pieces.empty()) return;
    const auto place = parts.find(&tensor);
    if (use_in_place(stored, pieces, tensor, place == parts.end() ? nullptr : place->second))
      return;
    const at::Tensor made =
        tensor.is_cpu() ? memory.empty(tensor.sizes(), tensor.scalar_type()) : tensor;
    for (const WeightPiece& piece : pieces) {
      const at::Tensor& target = piece.target;
      copy_floats(stored, {piece.part, made.as_strided(target.sizes(), target.strides(),
                                                       target.storage_offset())});
    }
    tensor = made;
  });
  if (tied) weights.head = weights.embedding;
}

}  // namespace anyaccel::llm
