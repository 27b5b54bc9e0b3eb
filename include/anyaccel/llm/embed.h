// Text embeddings: vectors that are close to each other if the texts have similar meanings.
//
//     // `vectors` is a float32 host tensor of shape [2, 384].
//     const auto embedder = anyaccel::llm::Embedder::load("all-MiniLM-L6-v2");
//     const at::Tensor vectors = embedder.embed({"a cat sat down", "the dog slept"});
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Options for Embedder::embed().
struct EmbedOptions {
  /// Number of texts per forward pass. Texts of similar length are processed together.
  std::int64_t batch_size = 32;
};

/// A BERT encoder on the current device of `get_accelerator()`, with the pooling and normalization
/// that its folder specifies (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019). Copies share
/// weights. Thread-safe after construction.
class ANYACCEL_API Embedder {
 public:
  /// Read a Hugging Face folder: config.json (model_type bert), model.safetensors (one file or
  /// shards), tokenizer.json, and the sentence-transformers files: modules.json, the pooling
  /// module's config.json, sentence_bert_config.json and config_sentence_transformers.json. If
  /// modules.json is missing, the embedding is the unnormalized mean over all tokens.
  ///
  /// `dtype`: compute dtype. Throws `not_found`, `io`, `corrupt` with the file and the key or
  /// tensor, or `unsupported` with the family, pooling, module or option.
  [[nodiscard]] static Embedder load(const std::filesystem::path& folder,
                                     c10::ScalarType dtype = c10::kFloat);

  /// Embed texts. Returns a float32 host tensor [texts, dimension()] in the order of `texts`. Texts
  /// longer than max_tokens() are truncated. A text's vector does not depend on the other texts,
  /// except for rounding, which depends on the shape of matrix products. Throws `invalid_argument`
  /// for a batch size below 1, or a text without tokens.
  [[nodiscard]] at::Tensor embed(const std::vector<std::string>& texts,
                                 const EmbedOptions& options = {}) const;

  /// Embedding dimension.
  std::int64_t dimension() const noexcept;
  /// Maximum sequence length, including special tokens.
  std::int64_t max_tokens() const noexcept;

 private:
  struct State;
  explicit Embedder(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace anyaccel::llm
