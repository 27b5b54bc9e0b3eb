// What a checkpoint holds beside the model, so that a run continues as if it had not stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "anyaccel/amp.h"
#include "anyaccel/llm/adamw.h"
#include "anyaccel/llm/trainer.h"
#include "llm/model/state.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

/// Progress of a run, and the state that it continues with.
struct Progress {
  std::int64_t step = 0;
  double seconds = 0;             ///< training time, including earlier parts of the run
  std::uint64_t fingerprint = 0;  ///< of the data
  std::string tokenizer;          ///< text of tokenizer.json; "" if not yet known, or for bytes
};

/// Everything that is saved together. References to the live objects.
struct RunState {
  ModelState& model;
  AdamW& optimizer;
  GradScaler& scaler;
  HostRandom& random;
  TrainOptions& options;
  Progress& progress;
};

/// Creates the folder and checks that files can be written there. Throws `io`.
void check_folder(const std::filesystem::path& folder);

/// Writes model.safetensors, config.json, tokenizer.json, tokenizer_config.json,
/// training_state.safetensors and trainer_state.json. All are complete on the disk before the first
/// one takes its place; on failure (`io`) none does.
void save_run(const std::filesystem::path& folder, const RunState& state);

/// What run_options() reads, as text: a rank tells it to others, which may not see the folder.
/// `not_found` when there is no saved run.
std::string read_run_description(const std::filesystem::path& folder);

/// The options (with the model's) and progress of a saved run. `corrupt` for what the folder, which
/// is named alone, should not have held.
TrainOptions run_options(const std::filesystem::path& folder, const std::string& description,
                         Progress& progress);

/// Reads optimizer, scaler and generator back. Throws `corrupt` when the files are of different
/// steps.
void load_run(const std::filesystem::path& folder, const RunState& state);

}  // namespace anyaccel::llm
