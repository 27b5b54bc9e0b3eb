// State that a checkpoint stores in addition to the model, so that a resumed run continues exactly
// where it stopped.
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

/// References to all objects that are saved and loaded together.
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
/// training_state.safetensors and trainer_state.json. All files are written to disk before the
/// first one is renamed to its final name. If writing fails, throws `io` and leaves the existing
/// files unchanged.
void save_run(const std::filesystem::path& folder, const RunState& state);

/// Reads the input for run_options() as text, which a rank can send to ranks that cannot access the
/// folder. Throws `not_found` if there is no saved run.
std::string read_run_description(const std::filesystem::path& folder);

/// Returns the options, including the model's, and the progress of a saved run. `folder` is used
/// only in error messages and is not accessed. Throws `corrupt` for invalid content.
TrainOptions run_options(const std::filesystem::path& folder, const std::string& description,
                         Progress& progress);

/// Restores the optimizer, scaler and generator. Throws `corrupt` if the files are from different
/// steps.
void load_run(const std::filesystem::path& folder, const RunState& state);

}  // namespace anyaccel::llm
