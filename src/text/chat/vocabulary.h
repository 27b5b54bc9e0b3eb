// The names that templates may use, by what knows them.
#pragma once

#include <optional>
#include <string_view>

#include "text/chat/value.h"

namespace anyaccel::llm::chat {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
/// A function that every template has: range, namespace, dict, raise_exception, strftime_now.
std::optional<Function> global_function(std::string_view name);
/// Whether a value of that type has a method of that name here.
bool has_method(const Value& object, std::string_view name);

}  // namespace anyaccel::llm::chat
