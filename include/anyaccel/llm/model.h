// A language model on the accelerator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

struct ModelState;

/// A Llama-architecture model whose weights lie on the current device of `get_accelerator()`. Copies share weights.
/// Not thread-safe.
class Model {
 public:
  /// Reads a Hugging Face folder: config.json and model.safetensors, whole or in shards. `dtype`: what to compute in.
  /// Throws `not_found`, `io`, `unsupported` naming what is not Llama, or `corrupt` naming file and tensor.
  static Model load(const std::filesystem::path& folder, c10::ScalarType dtype = c10::kFloat);
  /// New float32 weights drawn from `seed`; the same ones on every accelerator.
  static Model create(const ModelConfig& config, std::uint64_t seed);

  const ModelConfig& config() const noexcept;
  c10::ScalarType dtype() const noexcept;
  std::int64_t parameter_count() const;

  /// Logits [time, vocab] of a sequence, float32 on the host. `invalid_argument` for an empty sequence, ids outside the
  /// vocabulary, or more than the context.
  at::Tensor logits(const std::vector<std::int64_t>& ids) const;
  /// Writes config.json and model.safetensors into a folder; existing files are replaced once the new ones are complete.
  void save(const std::filesystem::path& folder) const;

  /// For the library's own sources.
  const std::shared_ptr<ModelState>& state() const noexcept { return state_; }

 private:
  explicit Model(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}
  std::shared_ptr<ModelState> state_;
};

}  // namespace anyaccel::llm
