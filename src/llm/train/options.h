// Checks of TrainOptions.
#pragma once

#include "anyaccel/llm/trainer.h"

namespace anyaccel::llm {

/// Throws `invalid_argument` for the first option that is out of its range.
void check_options(const TrainOptions& options);

/// Sets vocabulary size and special tokens of a byte-level model and checks the configuration.
void complete_model(ModelConfig& config);

}  // namespace anyaccel::llm
