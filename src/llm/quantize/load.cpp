#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <map>
#include <vector>

#include "llm/model/weights.h"
#include "llm/quantize/stored_weights.h"

namespace anyaccel::llm {

namespace {

struct Piece {
  std::string name;
  at::Tensor target;  ///< rows of the matrix that it belongs to
};
/// By the memory of the matrix.
using Pieces = std::map<const void*, std::vector<Piece>>;

const void* memory_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

bool alike(const QuantizedMatrix& one, const QuantizedMatrix& other) {
  return one.weight.scalar_type() == other.weight.scalar_type() && one.weight.size(1) == other.weight.size(1) &&
         one.scales.scales.size(1) == other.scales.scales.size(1);
}

/// The pieces of a matrix below each other; nothing where one has no form that they all share.
std::optional<QuantizedMatrix> join(const StoredWeights& stored, const std::vector<Piece>& pieces, std::int64_t rows) {
  std::vector<at::Tensor> weights, scales, zeros;
  std::optional<QuantizedMatrix> first;
  for (const Piece& piece : pieces) {
    const auto part = stored.integers(piece.name, piece.target.sizes());
    if (!part || (first && !alike(*first, *part))) return std::nullopt;
    if (!first) first = part;
    rows -= part->weight.size(0);
    weights.push_back(part->weight);
    scales.push_back(part->scales.scales);
    if (part->scales.zeros.defined()) zeros.push_back(part->scales.zeros);
  }
  if (rows != 0) return std::nullopt;  // the others are floats
  QuantizedMatrix out{at::cat(weights), {at::cat(scales), {}}};
  if (!zeros.empty()) out.scales.zeros = at::cat(zeros);
  if (out.scales.zeros.defined() && out.scales.zeros.eq(8).all().item<bool>()) out.scales.zeros.reset();
  return out;
}

/// What the file has in this place, where it can be used as it lies there.
std::optional<at::Tensor> in_place(const StoredWeights& stored, const Piece& piece) {
  const at::Tensor value = stored.floats(piece.name, piece.target.sizes());
  const bool same = value.scalar_type() == piece.target.scalar_type() && piece.target.is_cpu();
  return same && piece.target.is_contiguous() ? std::optional<at::Tensor>(value) : std::nullopt;
}

/// A whole tensor that is one in the file, or the parts of a matrix that are some there. False: it must be copied.
bool use_in_place(const StoredWeights& stored, const std::vector<Piece>& pieces, at::Tensor& tensor,
                  std::vector<at::Tensor>* parts) {
  if (pieces.size() > 1 && !parts) return false;
  std::vector<at::Tensor> found;
  for (const Piece& piece : pieces) {
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

void load(Weights& weights, const ModelConfig& config, const StoredWeights& stored) {
  const c10::AutoGradMode no_gradient(false);
  Pieces pieces;
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    if (stored.is_integer(name)) {
      pieces[memory_of(tensor)].push_back({name, tensor});
    } else {
      tensor.copy_(stored.floats(name, tensor.sizes()));
    }
  });
  each_matrix(weights, [&](const std::string&, at::Tensor& weight, Scales& scales) {
    const auto found = pieces.find(memory_of(weight));
    if (found == pieces.end()) return;
    const auto made = join(stored, found->second, weight.size(0));
    if (!made) return;
    const c10::Device device = weight.device();
    weight = made->weight.to(device);
    scales.scales = made->scales.scales.to(device);
    if (made->scales.zeros.defined()) scales.zeros = made->scales.zeros.to(device);
    weights.quantized = true;
    pieces.erase(found);
  });
  for (const auto& [matrix, all] : pieces) {
    for (const Piece& piece : all) piece.target.copy_(stored.floats(piece.name, piece.target.sizes()));
  }
}

void load_mapped(Weights& weights, const ModelConfig& config, const StoredWeights& stored) {
  const c10::AutoGradMode no_gradient(false);
  Pieces pieces;
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    pieces[memory_of(tensor)].push_back({name, tensor});
  });
  std::map<const at::Tensor*, std::vector<at::Tensor>*> parts;
  for (LayerWeights& layer : weights.layers) {
    parts[&layer.qkv] = &layer.qkv_parts;
    parts[&layer.gate_up] = &layer.gate_up_parts;
  }
  const bool tied = weights.head.is_same(weights.embedding);
  each_parameter(weights, [&](const std::string&, at::Tensor& tensor) {
    const auto found = pieces.find(memory_of(tensor));
    if (found == pieces.end()) return;
    const auto place = parts.find(&tensor);
    if (use_in_place(stored, found->second, tensor, place == parts.end() ? nullptr : place->second)) return;
    for (const Piece& piece : found->second) piece.target.copy_(stored.floats(piece.name, piece.target.sizes()));
  });
  if (tied) weights.head = weights.embedding;
}

}  // namespace anyaccel::llm
