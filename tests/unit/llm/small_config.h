// Configurations of models with a few thousand weights.
#pragma once

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// The weights are so large that the two largest logits are rarely nearly equal.
inline ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 20;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 4;
  config.max_positions = 16;
  config.initializer_range = 0.3;
  return config;
}

}  // namespace anyaccel::llm
