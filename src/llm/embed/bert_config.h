// A BERT encoder's configuration, read from config.json.
#pragma once

#include <cstdint>
#include <filesystem>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// Devlin et al. 2018 (arXiv:1810.04805). The initial values are transformers' defaults for missing
/// keys.
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 3072;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t max_positions = 512;
  std::int64_t token_types = 2;
  double layer_norm_eps = 1e-12;
  Activation activation = Activation::gelu;
};

/// Reads config.json in a folder. Throws `not_found`, `io`, `corrupt` naming the file and the key,
/// or `unsupported` naming the family or option.
BertConfig read_bert_config(const std::filesystem::path& folder);

}  // namespace anyaccel::llm
