// Activation names in config.json.
#pragma once

#include "anyaccel/llm/config.h"
#include "text/json.h"

namespace anyaccel::llm {

/// Returns the activation that the value of `key` names. If the file has no such key, returns the
/// activation named `absent`. Throws `unsupported` for other names, including those that only
/// transformers supports.
Activation read_activation(const JsonReader& in, const char* key, const char* absent);

/// Returns the name to write to config.json.
const char* activation_name(Activation activation) noexcept;

}  // namespace anyaccel::llm
