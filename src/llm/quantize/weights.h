// Quantizes a model, or a rank's part of it, when it is loaded.
#pragma once

#include <filesystem>
#include <string>

#include "anyaccel/llm/config.h"
#include "anyaccel/llm/model.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

struct ParallelPlan;

/// Opens the weights in a folder. Throws `invalid_argument` for bits other than 0, 4 or 8, for a
/// group size that is not a multiple of 32, or for quantization of weights that are already
/// quantized.
StoredWeights open_stored(const std::filesystem::path& folder, const LoadOptions& options);

/// Quantizes the layers' matrices and the head, one at a time. The embedding, norms, biases,
/// routers and experts stay floating-point. So do matrices for which requested_format() returns
/// nullopt. A head that is tied to the embedding becomes a separate tensor. `plan`: this rank's
/// plan, or null.
void quantize(Weights& weights, const ModelConfig& config, const LoadOptions& options,
              const ParallelPlan* plan = nullptr);

/// Caches a model's quantized weights, or those of one rank's part of it, in a file between loads.
class QuantizedFile {
 public:
  /// The file is in ANYACCEL_MODEL_CACHE if that is set, otherwise in anyaccel/models under
  /// XDG_CACHE_HOME or ~/.cache. If none of these is known, nothing is cached. The file name
  /// depends on the options, the plan, and the path, sizes and modification times of the model's
  /// files.
  QuantizedFile(const std::filesystem::path& folder, const LoadOptions& options,
                const ParallelPlan* plan = nullptr);

  /// Maps the file that save() wrote. Returns false if the file is missing or unusable. Logs a
  /// warning if it is damaged.
  bool load(Weights& weights) const;
  /// Writes the file atomically. Logs a warning on failure, because the model is usable without it.
  void save(Weights& weights) const;

 private:
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace anyaccel::llm
