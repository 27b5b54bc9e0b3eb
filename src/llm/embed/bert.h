// A BERT encoder's tensors and its forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/embed/bert_config.h"

namespace anyaccel::llm {

class Checkpoint;

/// One encoder layer. Query, key and value share one matrix: one larger product.
struct BertLayer {
  at::Tensor qkv, qkv_bias, output, output_bias, attention_norm, attention_norm_bias;
  at::Tensor inner, inner_bias, down, down_bias, norm, norm_bias;
};

/// All tensors that token vectors are made from.
struct BertWeights {
  at::Tensor words;      ///< [vocab, hidden]
  at::Tensor positions;  ///< [positions, hidden]
  at::Tensor types;      ///< [token types, hidden]; a text's tokens are all of type 0
  at::Tensor norm, norm_bias;
  std::vector<BertLayer> layers;
  /// Where the op `inference_encode` computes them: the layers' weights in its order, matrices
  /// packed. `layers` has the small ones alone.
  std::vector<at::Tensor> packed;
};

/// Uninitialized weights of the configuration's shapes.
BertWeights make_bert_weights(const BertConfig& config, c10::ScalarType dtype, c10::Device device);

/// Every tensor under its Hugging Face name; parts of fused matrices are views of them.
std::vector<std::pair<std::string, at::Tensor>> bert_tensors(const BertWeights& weights);

/// A checkpoint's weights on the current device; names may begin with "bert." and norms be called
/// gamma and beta, as in old ones. Throws `corrupt` for missing or misshapen tensors, before memory
/// is taken.
BertWeights load_bert(const BertConfig& config, const Checkpoint& checkpoint,
                      c10::ScalarType dtype);

/// Texts of different length: products and norms see tokens only, attention an array [texts, time]
/// of places.
struct BertPadding {
  at::Tensor places;   ///< [tokens]: each one's place
  at::Tensor rows;     ///< [texts * time]: the token at each place, any one where there is none
  at::Tensor counted;  ///< bool [texts, time]: where there is one
};

/// What is computed at once; on the accelerator.
struct BertBatch {
  std::int64_t texts, time;            ///< time: tokens of the longest
  std::vector<std::int64_t> lengths;   ///< of each text, in tokens
  at::Tensor ids, positions;           ///< int64 [tokens], one text after the other
  std::optional<BertPadding> padding;  ///< nothing where all are equally long
};

/// Packs the layers' matrices where the op `inference_encode` computes them, and lets go of them as
/// they were.
void pack_layers(BertWeights& weights);

/// Token vectors [texts, time, hidden].
at::Tensor bert_forward(const BertWeights& weights, const BertConfig& config,
                        const BertBatch& batch);

}  // namespace anyaccel::llm
