// A template's variables from JSON.
#pragma once

#include "text/chat/value.h"
#include "text/json.h"

namespace anyaccel::llm::chat {

/// Throws `unsupported` for whole numbers beyond 64 bits.
Value value_of(const Json& json);

}  // namespace anyaccel::llm::chat
