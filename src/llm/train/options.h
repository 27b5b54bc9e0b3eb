// Validation of TrainOptions.
#pragma once

#include "anyaccel/llm/trainer.h"

namespace anyaccel::llm {

/// Throws `invalid_argument` for the first option that is out of range.
void check_options(const TrainOptions& options);

/// Sets the vocabulary size and special tokens of a byte-level model and validates the
/// configuration.
void complete_model(ModelConfig& config);

}  // namespace anyaccel::llm
