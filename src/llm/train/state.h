// State that a checkpoint stores in addition to the model, so that a resumed run continues exactly.
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

/// Progress of a run, and its data and vocabulary.
struct Progress {
  std::int64_t step = 0;
  double seconds = 0;             ///< training time, including earlier parts of the run
  std::uint64_t fingerprint = 0;  ///< fingerprint of the data
  std::string tokenizer;          ///< text of tokenizer.json; "" if not yet known, or for bytes
};

/// References to all objects that are saved together.
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
/// training_state.safetensors and trainer_state.json. All are written to disk before the first one
/// is renamed into place. Throws `io` on failure without replacing any file.
void save_run(const std::filesystem::path& folder, const RunState& state);

/// Reads the input of run_options() as text, which a rank can send to ranks that do not see the
/// folder. Throws `not_found` if there is no saved run.
std::string read_run_description(const std::filesystem::path& folder);

/// Returns options, including the model's, and progress of a saved run. Does not access `folder`,
/// which only errors name. Throws `corrupt` for invalid content.
TrainOptions run_options(const std::filesystem::path& folder, const std::string& description,
                         Progress& progress);

/// Restores optimizer, scaler and generator. Throws `corrupt` if the files are of different steps.
void load_run(const std::filesystem::path& folder, const RunState& state);

}  // namespace anyaccel::llm
