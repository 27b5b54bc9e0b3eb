// Texts to vectors that are near each other when the texts mean the same:
//
//   const auto embedder = anyaccel::llm::Embedder::load("all-MiniLM-L6-v2");
//   const at::Tensor vectors = embedder.embed({"a cat sat down", "the dog slept"});  // [2, 384]
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

struct EmbedOptions {
  std::int64_t batch_size =
      32;  ///< texts that are computed at once; texts of like length go together
};

/// A BERT encoder whose weights lie on the current device of `get_accelerator()`, with the pooling
/// and the normalization that its folder names. Copies share weights. Thread-safe once made.
class ANYACCEL_API Embedder {
 public:
  /// Reads a Hugging Face folder: config.json (model_type bert), model.safetensors, whole or in
  /// shards, tokenizer.json; and what sentence-transformers puts beside them: modules.json, the
  /// pooling's config.json, sentence_bert_config.json, config_sentence_transformers.json. Without
  /// those: the mean of all tokens, not normalized. `dtype`: what to compute in. Throws
  /// `not_found`, `io`, `corrupt` naming file and key or tensor, or `unsupported` naming the
  /// family, pooling, module or option that is not there.
  [[nodiscard]] static Embedder load(const std::filesystem::path& folder,
                                     c10::ScalarType dtype = c10::kFloat);

  /// A float32 host tensor [texts, dimension()], row by row in the order of `texts`. Of a text that
  /// is longer than max_tokens() the beginning counts. A text's vector does not depend on those
  /// beside it but for the rounding of products of other shapes. Throws `invalid_argument` for a
  /// batch size below 1, or a text without any token.
  [[nodiscard]] at::Tensor embed(const std::vector<std::string>& texts,
                                 const EmbedOptions& options = {}) const;

  /// Values of a vector.
  std::int64_t dimension() const noexcept;
  /// Tokens of a text that count, those that frame it among them.
  std::int64_t max_tokens() const noexcept;

 private:
  struct State;
  explicit Embedder(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace anyaccel::llm
