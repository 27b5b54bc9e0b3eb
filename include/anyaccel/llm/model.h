// Language models on the accelerator.
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

/// Options for loading a model.
struct LoadOptions {
  c10::ScalarType dtype = c10::kFloat;  ///< dtype for weights and computation
  /// 8 or 4: quantize weight matrices to integers of this many bits, with one scale per group of
  /// inputs. 0: do not quantize.
  int bits = 0;
  /// Quantization group size: number of inputs per scale, a multiple of 32. 0: the largest of 128,
  /// 64 and 32 that divides the number of inputs.
  std::int64_t group_size = 0;
  /// Keep the quantized weights in the user's cache (docs/reference/environment.md).
  bool cache = true;
  /// Memory-map the file, and use weights in place if they already have the right dtype. False:
  /// copy all weights.
  bool mmap = true;
};

/// A decoder language model on the current device of `get_accelerator()`. Copies share weights. Not
/// thread-safe.
class ANYACCEL_API Model {
 public:
  /// Read a Hugging Face folder: config.json and model.safetensors (one file or shards). `dtype`:
  /// dtype for weights and computation. Throws `not_found`, `io`, `unsupported` with the family or
  /// option, or `corrupt` with the file and tensor.
  [[nodiscard]] static Model load(const std::filesystem::path& folder,
                                  c10::ScalarType dtype = c10::kFloat);
  /// Read a Hugging Face folder, and quantize its weight matrices to integers if `options.bits` is
  /// set. This makes generation faster, because generation is limited by memory bandwidth: 8-bit
  /// and 4-bit integers take half and a quarter of the bytes of bfloat16. Embedding, norms, biases
  /// and experts remain in `options.dtype`. Throws `invalid_argument` for unsupported bits or group
  /// sizes, or if the checkpoint is already quantized.
  ///
  /// Quantized checkpoints stay quantized: GPTQ with 4 and 8 bits, AWQ ("gemm") with 4 bits,
  /// and compressed-tensors with 4 and 8 bits. A matrix is dequantized to `options.dtype` if inputs
  /// that share a scale are not adjacent, if the group size is not a multiple of 32, or if it has 8
  /// bits and zero points.
  [[nodiscard]] static Model load(const std::filesystem::path& folder, const LoadOptions& options);
  /// Read a model that is split across all ranks of a job (tensor parallelism). The launcher's
  /// environment variables describe the job. Each rank reads and holds a part of the weights.
  /// logits() and generate() are then collective: all ranks call them with the same arguments and
  /// get the same results.
  ///
  /// `plan_file`: a JSON object that maps name patterns to column, row, vocabulary or replicated.
  /// Empty: the plan in config.json, if any. Throws the same errors as load() and
  /// comm::init_process_group(), and `invalid_argument` with the name of a weight that cannot be
  /// split.
  [[nodiscard]] static Model load_parallel(const std::filesystem::path& folder,
                                           c10::ScalarType dtype = c10::kFloat,
                                           const std::filesystem::path& plan_file = {});
  /// Read a model that is split across all ranks of a job, with quantized weights if `options.bits`
  /// is set or the checkpoint is quantized. A rank's quantized weights equal those of a single-rank
  /// model if the rank's part of the inputs begins and ends at group boundaries. The feed-forward
  /// layers are split at such boundaries.
  ///
  /// The attention output projection is split at head boundaries. If a head boundary falls inside a
  /// group, the rank uses groups of 64 or 32 inputs if one of these sizes fits. If neither fits, or
  /// if `options.group_size` is set, the rank's part is not quantized and has `options.dtype`. A
  /// quantized checkpoint is not quantized again; its groups are split into smaller ones. Each rank
  /// has its own file in the cache.
  [[nodiscard]] static Model load_parallel(const std::filesystem::path& folder,
                                           const LoadOptions& options,
                                           const std::filesystem::path& plan_file = {});
  /// Create a model with random float32 weights. The same `seed` gives the same weights on every
  /// accelerator.
  static Model create(const ModelConfig& config, std::uint64_t seed);

  /// Configuration of the whole model.
  const ModelConfig& config() const noexcept;
  /// Compute dtype.
  c10::ScalarType dtype() const noexcept;
  /// Return whether weight matrices are quantized to integers, because of LoadOptions::bits or
  /// because the checkpoint is quantized.
  bool quantized() const noexcept;
  /// Number of parameters in the whole model.
  std::int64_t parameter_count() const;
  /// Rank of this process among the ranks that hold the model; 0 if one process holds the whole
  /// model.
  int rank() const noexcept;
  /// Number of ranks that hold the model. 1 if one process holds it.
  int ranks() const noexcept;
  /// Wait until all ranks have called barrier(). Call it before a rank exits, because other ranks
  /// may still need that rank.
  void barrier() const;

  /// Return the logits [time, vocab] of a sequence as float32 on the host. Throws
  /// `invalid_argument` for an empty sequence, ids outside the vocabulary, or more tokens than the
  /// context allows.
  [[nodiscard]] at::Tensor logits(const std::vector<std::int64_t>& ids) const;
  /// Write config.json and model.safetensors with float32 weights to a folder. Existing files are
  /// replaced only when the new ones are complete. Throws `unsupported` for families other than
  /// Llama, for one rank's part of a model and for quantized weights, and `io` if writing fails.
  void save(const std::filesystem::path& folder) const;

  /// Internal.
  const std::shared_ptr<ModelState>& state() const noexcept { return state_; }

 private:
  explicit Model(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}
  std::shared_ptr<ModelState> state_;
};

}  // namespace anyaccel::llm
