// Names of functions and methods that templates may use.
#pragma once

#include <optional>
#include <string_view>

#include "text/chat/value.h"

namespace anyaccel::llm::chat {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
/// Returns a global function: range, namespace, dict, raise_exception, strftime_now.
std::optional<Function> global_function(std::string_view name);
/// Returns whether values of this type have this method in the supported subset.
bool has_method(const Value& object, std::string_view name);

}  // namespace anyaccel::llm::chat
