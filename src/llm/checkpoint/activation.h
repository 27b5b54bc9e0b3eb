// Names of activations in config.json.
#pragma once

#include "anyaccel/llm/config.h"
#include "llm/support/json.h"

namespace anyaccel::llm {

/// Return the activation that `key` names. `absent` is the name to use if the file has no such key. Throws `unsupported`
/// for a name that transformers knows and we do not, and for any other.
Activation read_activation(const JsonReader& in, const char* key, const char* absent);

/// The name to write to config.json.
const char* activation_name(Activation activation) noexcept;

}  // namespace anyaccel::llm
