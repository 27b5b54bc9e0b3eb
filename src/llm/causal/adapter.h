// LoRA adapters of a CausalLM.
#pragma once

#include <vector>

#include "llm/causal/state.h"

namespace anyaccel::llm {

/// Adds an adapter to the given modules. Throws the same errors as inject_adapter().
void add_adapter(CausalLM& model, const LoraConfig& config,
                 const std::vector<LinearModule>& modules);

/// Passes the adapter to the model's layers, after its options or tensors were replaced.
void use_adapter(CausalState& state);

}  // namespace anyaccel::llm
