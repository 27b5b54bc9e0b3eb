// Conversion of JSON to template values.
#pragma once

#include "text/chat/value.h"
#include "text/json.h"

namespace anyaccel::llm::chat {

/// Throws `unsupported` for integers beyond 64 bits.
Value value_of(const Json& json);

}  // namespace anyaccel::llm::chat
