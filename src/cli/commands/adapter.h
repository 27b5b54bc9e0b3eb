// The LoRA adapter of commands that generate text.
#pragma once

#include "anyaccel/llm/model.h"
#include "cli/commands/generation_options.h"

namespace anyaccel::cli {

/// If --model is the folder of an adapter, replaces it by the adapter's base model, and sets
/// --adapter. Throws `not_found` if the base model is not a folder on this machine.
void find_base_model(GenerationOptions& options);

/// Loads the model, and merges the adapter into its weights if there is one.
llm::Model load_with_adapter(const GenerationOptions& options);

}  // namespace anyaccel::cli
