// config.json as it was read.
#pragma once

#include <string>

#include "anyaccel/llm/config.h"
#include "llm/support/json.h"

namespace anyaccel::llm {

/// What ModelConfig::read() makes of the file's content; `source` is named in errors.
ModelConfig model_config(const Json& object, const std::string& source);

}  // namespace anyaccel::llm
