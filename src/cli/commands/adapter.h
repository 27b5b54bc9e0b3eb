// LoRA adapters of `generate` and `chat`.
#pragma once

#include "anyaccel/llm/model.h"
#include "cli/commands/generation_options.h"

namespace anyaccel::cli {

/// Lets --model name an adapter: if its folder contains adapter_config.json but not config.json,
/// and
/// --adapter is not given, the folder becomes --adapter, and its base model becomes --model. Throws
/// `not_found` if the base model is not a folder on this machine, and the same errors as
/// adapter_base_model().
void find_base_model(GenerationOptions& options);

/// Loads the model, and merges the adapter into its weights if there is one.
llm::Model load_with_adapter(const GenerationOptions& options);

}  // namespace anyaccel::cli
