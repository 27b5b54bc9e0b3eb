// Settings in config.json that matter only for training.
#pragma once

#include <cstdint>

#include "text/json.h"

namespace anyaccel::llm {

/// Dropout probabilities and other settings, under the names and defaults of each family.
struct TrainingConfig {
  double attention_dropout = 0;  ///< on the attention probabilities
  double residual_dropout = 0;   ///< on the outputs of attention and of the feed-forward layers
  double embedding_dropout = 0;  ///< on the sum of token and position embeddings
  double layer_drop = 0;         ///< probability of skipping a layer
  /// Token whose embedding gets no gradient, as with `padding_idx` in torch.nn.Embedding; -1: none.
  std::int64_t padding_id = -1;
};

/// Reads the settings of a supported family. Throws `corrupt`, naming the key, for values out of
/// range. Logs a warning for settings that transformers applies and this library does not: the
/// auxiliary loss and the jitter of routers.
TrainingConfig read_training_config(const Json& object, const std::string& source);

}  // namespace anyaccel::llm
