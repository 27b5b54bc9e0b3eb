// A language model on the accelerator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

struct ModelState;

/// How a model is loaded.
struct LoadOptions {
  c10::ScalarType dtype = c10::kFloat;  ///< type of the weights in memory and of the arithmetic
  int bits =
      0;  ///< 8 or 4: quantize matrices to integers with one scale per group of inputs; 0: do not
  std::int64_t group_size =
      0;  ///< inputs per scale, a multiple of 32; 0: the largest of 128, 64 and 32 that divides
  bool cache =
      true;  ///< keep the quantized weights in the user's cache (docs/reference/environment.md)
  bool mmap = true;  ///< use weights of the right dtype where the file is mapped; false: copy them
};

/// A Llama-architecture model whose weights lie on the current device of `get_accelerator()`.
/// Copies share weights. Not thread-safe.
class ANYACCEL_API Model {
 public:
  /// Reads a Hugging Face folder: config.json and model.safetensors, whole or in shards. `dtype`:
  /// what to compute in. Throws `not_found`, `io`, `unsupported` naming what is not Llama, or
  /// `corrupt` naming file and tensor.
  [[nodiscard]] static Model load(const std::filesystem::path& folder,
                                  c10::ScalarType dtype = c10::kFloat);
  /// The same, with weights as integers if wanted: a half or a quarter of bfloat16's bytes, which
  /// is what a new token waits for. Embedding, norms, biases and experts stay in `dtype`. Throws
  /// `invalid_argument` for other bits or groups, or a checkpoint whose weights are integers
  /// already. Such ones are read as they are: GPTQ and AWQ ("gemm") of 4 bits, GPTQ of 8,
  /// compressed-tensors of 4 and 8. Where inputs that are no neighbours share a scale, a group is
  /// no multiple of 32, or 8 bits have zeros, they become `dtype`.
  [[nodiscard]] static Model load(const std::filesystem::path& folder, const LoadOptions& options);
  /// The same by all ranks of a job together, as the launcher's variables name them: each reads and
  /// holds its part of the weights, and logits() and generate() are calls of all ranks with the
  /// same arguments and results. `plan_file`: a JSON object of patterns of names to column, row,
  /// vocabulary or replicated; empty: what config.json says, or none. Throws what
  /// comm::init_process_group() throws too, and `invalid_argument` naming the weight that cannot be
  /// split.
  [[nodiscard]] static Model load_parallel(const std::filesystem::path& folder,
                                           c10::ScalarType dtype = c10::kFloat,
                                           const std::filesystem::path& plan_file = {});
  /// The same, with weights as integers if wanted or if the checkpoint has them so: each rank has
  /// those that one rank alone would have, where its part of the inputs begins and ends between
  /// groups. The feed-forward part is cut so; after attention, where heads are cut, a rank's part
  /// has groups of 64 or 32 if these fit, and is `dtype` if not or if a `group` was asked for. A
  /// checkpoint's groups are divided instead. Each rank keeps a file of its own in the cache.
  [[nodiscard]] static Model load_parallel(const std::filesystem::path& folder,
                                           const LoadOptions& options,
                                           const std::filesystem::path& plan_file = {});
  /// New float32 weights drawn from `seed`; the same ones on every accelerator.
  static Model create(const ModelConfig& config, std::uint64_t seed);

  const ModelConfig& config() const noexcept;
  c10::ScalarType dtype() const noexcept;
  /// Whether matrices are integers, because they were to be or because the checkpoint has them so.
  bool quantized() const noexcept;
  /// Of the whole model.
  std::int64_t parameter_count() const;
  /// Of those that hold the model together: 0 and 1 where it is whole.
  int rank() const noexcept;
  int ranks() const noexcept;
  /// Returns when all ranks have come: before one ends while others still need it.
  void barrier() const;

  /// Logits [time, vocab] of a sequence, float32 on the host. `invalid_argument` for an empty
  /// sequence, ids outside the vocabulary, or more than the context.
  [[nodiscard]] at::Tensor logits(const std::vector<std::int64_t>& ids) const;
  /// `unsupported` for a part of a model, or integers. Writes config.json and model.safetensors
  /// into a folder; existing files are replaced once the new ones are complete.
  void save(const std::filesystem::path& folder) const;

  /// For the library's own sources.
  const std::shared_ptr<ModelState>& state() const noexcept { return state_; }

 private:
  explicit Model(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}
  std::shared_ptr<ModelState> state_;
};

}  // namespace anyaccel::llm
