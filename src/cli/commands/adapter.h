// LoRA adapters of `generate` and `chat`.
#pragma once

#include "anyaccel/llm/model.h"
#include "cli/commands/generation_options.h"

namespace anyaccel::cli {

/// If there is no --adapter, and --model is a folder with adapter_config.json but no config.json,
/// sets --adapter to that folder and --model to the adapter's base model. Throws `not_found` if the
/// base model is not a folder on this machine, and the errors of adapter_base_model().
void find_base_model(GenerationOptions& options);

/// Loads the model, and merges the adapter into its weights if there is one.
llm::Model load_with_adapter(const GenerationOptions& options);

}  // namespace anyaccel::cli
