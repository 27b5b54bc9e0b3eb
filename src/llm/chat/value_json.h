// A template's variables from JSON.
#pragma once

#include "llm/chat/value.h"
#include "llm/support/json.h"

namespace anyaccel::llm::chat {

/// Throws `unsupported` for whole numbers beyond 64 bits.
Value value_of(const Json& json);

}  // namespace anyaccel::llm::chat
