// Finds the assistant's parts of a conversation if the template does not mark them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "anyaccel/llm/chat.h"
#include "text/json.h"

namespace anyaccel::llm::chat {

/// Renders a template with the variables in an object.
using Render = std::function<std::string(const Json& variables)>;

/// Returns the parts of `whole`, the rendered `conversation`, that the assistant's messages add.
/// Renders parts of the conversation and compares the texts. Throws `unsupported` if a part cannot
/// be found.
std::vector<TextSpan> assistant_parts(const Json& conversation, const std::string& whole,
                                      const Render& render);

}  // namespace anyaccel::llm::chat
