// Activation names in config.json.
#pragma once

#include "anyaccel/llm/config.h"
#include "text/json.h"

namespace anyaccel::llm {

/// Returns the activation named by the value of `key`, or `absent` if the file has no such key.
/// Throws `unsupported` for other names, including names that only the transformers library
/// supports.
Activation read_activation(const JsonReader& in, const char* key, const char* absent);

/// Returns the name to write to config.json.
const char* activation_name(Activation activation) noexcept;

}  // namespace anyaccel::llm
