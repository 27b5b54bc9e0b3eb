// The files of a fine-tuning run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "anyaccel/llm/causal_lm.h"
#include "anyaccel/llm/fine_tuner.h"
#include "llm/fine_tune/trained.h"
#include "llm/fine_tune/updater.h"
#include "llm/train/ranks.h"

namespace anyaccel::llm {

/// Progress of a run.
struct FineTuneProgress {
  std::int64_t step = 0;
  double seconds = 0;             ///< training time, including earlier parts of the run
  std::uint64_t fingerprint = 0;  ///< hash of the training data's tokens
  /// Hash of the base weights of an adapter. Empty without an adapter.
  std::optional<std::uint64_t> base_fingerprint;
  double best_loss = std::numeric_limits<double>::infinity();  ///< lowest validation loss
  std::int64_t best_step = 0;
};

/// Files of one run in its output folder:
///
/// - Without an adapter: model.safetensors and config.json. With one: adapter_model.safetensors and
///   adapter_config.json.
/// - The tokenizer's files and generation_config.json, copied from the model's folder.
/// - training_state.safetensors: the optimizer's moments, and the float32 weights that the model's
///   files do not contain.
/// - trainer_state.json: progress and options.
/// - best/: the files of the first two items for the lowest validation loss.
///
/// An adapter's files and the state are two groups, which are replaced separately. A run is resumed
/// from the state alone.
class RunFiles {
 public:
  /// `source`: folder with the tokenizer's files.
  RunFiles(std::filesystem::path out, std::filesystem::path source)
      : out_(std::move(out)), source_(std::move(source)) {}

  /// Replaces the checkpoint. Collective; rank 0 writes the files. If that fails, throws `io` on
  /// all ranks and leaves the existing files unchanged.
  void save(const CausalLM& model, const TrainedParameters& trained, Updater& updater,
            const FineTuneOptions& options, const FineTuneProgress& progress, Ranks& ranks);
  /// Replaces the files in best/.
  void save_best(const CausalLM& model, const FineTuneOptions& options);
  /// Removes files of an earlier run that do not belong to this one: those of the other kind
  /// (adapter or model), and best/ unless `keep_best` is set.
  void remove_stale(const FineTuneOptions& options, bool keep_best) const;

 private:
  std::filesystem::path out_, source_;
};

/// Reads options and progress of the run in a folder. Throws `not_found` or `corrupt`.
FineTuneOptions read_run(const std::filesystem::path& folder, FineTuneProgress& progress);

/// Restores the trained parameters that the model's files do not contain, and the optimizer. Throws
/// `corrupt` if the files are from different steps or do not match the model.
void load_state(const std::filesystem::path& folder, const FineTuneOptions& options,
                const FineTuneProgress& progress, const TrainedParameters& trained,
                Updater& updater);

}  // namespace anyaccel::llm
