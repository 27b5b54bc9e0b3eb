// A BERT encoder's weights and forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/embed/bert_config.h"

namespace anyaccel::llm {

class Checkpoint;

/// One encoder layer. Query, key and value are fused into one matrix, so that a single larger
/// matrix product computes them.
struct BertLayer {
  at::Tensor qkv, qkv_bias, output, output_bias, attention_norm, attention_norm_bias;
  at::Tensor inner, inner_bias, down, down_bias, norm, norm_bias;
};

/// All weights of the encoder.
struct BertWeights {
  at::Tensor words;      ///< [vocab, hidden]
  at::Tensor positions;  ///< [positions, hidden]
  at::Tensor types;      ///< [token types, hidden]; all tokens have type 0
  at::Tensor norm, norm_bias;
  std::vector<BertLayer> layers;
  /// Set if the op `inference_encode` computes the layers: their weights in the op's order, with
  /// packed matrices. `layers` then contains only vectors.
  std::vector<at::Tensor> packed;
};

/// Creates uninitialized weights with the configuration's shapes.
BertWeights make_bert_weights(const BertConfig& config, c10::ScalarType dtype, c10::Device device);

/// Lists all tensors with their Hugging Face names. Parts of fused matrices are views.
std::vector<std::pair<std::string, at::Tensor>> bert_tensors(const BertWeights& weights);

/// Loads a checkpoint's weights to the current device. Names may begin with "bert.", and norms may
/// use the old names gamma and beta. If a tensor is missing or misshapen, throws `corrupt` before
/// allocating memory.
BertWeights load_bert(const BertConfig& config, const Checkpoint& checkpoint,
                      c10::ScalarType dtype);

/// Maps between packed rows, one per token, and the padded array [texts, time]. Matrix products and
/// norms use packed rows; attention uses the padded array.
struct BertPadding {
  at::Tensor places;   ///< [tokens]: index of each token in the padded array
  at::Tensor rows;     ///< [texts * time]: index of each position's token; any index for padding
  at::Tensor counted;  ///< bool [texts, time]: false for padding
};

/// A batch of texts for one forward pass. The tensors are on the accelerator.
struct BertBatch {
  std::int64_t texts, time;            ///< number of texts; number of tokens in the longest text
  std::vector<std::int64_t> lengths;   ///< number of tokens in each text
  at::Tensor ids, positions;           ///< int64 [tokens]; the texts are concatenated
  std::optional<BertPadding> padding;  ///< none if all texts have the same length
};

/// Packs the layers' matrices if the op `inference_encode` supports them, and frees the originals.
void pack_layers(BertWeights& weights);

/// Returns token embeddings [texts, time, hidden].
at::Tensor bert_forward(const BertWeights& weights, const BertConfig& config,
                        const BertBatch& batch);

}  // namespace anyaccel::llm
