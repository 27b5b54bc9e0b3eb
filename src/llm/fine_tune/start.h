// Prepares the options and the model of a new or resumed run.
#pragma once

#include "anyaccel/llm/causal_lm.h"
#include "anyaccel/llm/fine_tuner.h"
#include "llm/fine_tune/run_files.h"
#include "llm/train/ranks.h"

namespace anyaccel::llm {

/// Validates the options. With `resume`, reads the saved run's options and progress. Sets
/// `from_scratch` if the model's folder has no weights. Throws `invalid_argument`, `not_found` or
/// `corrupt`.
FineTuneOptions starting_options(FineTuneOptions given, FineTuneProgress& progress, Ranks& ranks);

/// Reads or creates the model, adds the adapter and sets training mode.
CausalLM starting_model(const FineTuneOptions& options);

/// Throws `invalid_argument` if the hash of the base weights differs from
/// `progress.base_fingerprint`. Stores the hash there.
void check_base_weights(const CausalLM& model, const FineTuneOptions& options,
                        FineTuneProgress& progress);

/// Throws `unsupported` if the accelerator lacks the dtype.
void check_dtype(c10::ScalarType dtype);

}  // namespace anyaccel::llm
