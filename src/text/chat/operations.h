// Operations on values, with the semantics of Python and Jinja. Errors name the line. The cost is
// charged to the budget.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/errors.h"
#include "text/chat/value.h"

namespace anyaccel::llm::chat {

/// Current line of the template, and the remaining budget.
struct Context {
  Budget& budget;
  int line;
};

Value make_text(const Context& context, std::string text);
Value make_list(const Context& context, std::vector<Value> items, bool tuple = false);
Value make_dict(const Context& context, std::vector<std::pair<std::string, Value>> items);

/// Like Python's str(value), as used for output.
std::string to_text(const Context& context, const Value& value);
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// Like Python's json.dumps(value).
std::string to_json(const Context& context, const Value& value, const JsonStyle& style);

bool equal(const Context& context, const Value& a, const Value& b);
/// Returns a < b for two numbers, strings, or lists of these.
bool less(const Context& context, const Value& a, const Value& b);
/// Returns the result of a comparison operator: == != < <= > >= in, not in.
bool compare(const Context& context, const std::string& op, const Value& a, const Value& b);
/// Returns the result of an operator: + - * / // % ** ~.
Value calculate(const Context& context, const std::string& op, const Value& a, const Value& b);
Value negative(const Context& context, const Value& a);

/// Return object.name and object[index]; undefined if there is no such attribute or item.
Value attribute(const Context& context, const Value& object, const std::string& name);
Value item(const Context& context, const Value& object, const Value& index);
/// Returns object[start:stop:step]; omitted parts are None.
Value slice(const Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step);
/// Returns the elements that a loop iterates over; none for an undefined value.
std::vector<Value> elements(const Context& context, const Value& value);
std::int64_t length(const Context& context, const Value& value);

/// Arguments of a call.
struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> keywords = {};
};
/// Binds arguments to parameter names; missing ones are empty. Throws if there are too many
/// arguments, or if one is duplicate or unknown.
std::vector<std::optional<Value>> bind(const Context& context, const std::string& called,
                                       const Arguments& arguments,
                                       const std::vector<std::string>& names);
/// Return the argument as a string or an integer. Throw if it has another type.
std::string text_argument(const Context& context, const std::string& called, const Value& value);
std::int64_t integer_argument(const Context& context, const std::string& called,
                              const Value& value);

Value apply_filter(const Context& context, const std::string& name, const Value& input,
                   const Arguments& arguments);
bool apply_test(const Context& context, const std::string& name, const Value& input,
                const Arguments& arguments);
Value call_method(const Context& context, const Value& object, const std::string& name,
                  const Arguments& arguments);
/// Calls a function returned by global_function().
Value call_global(const Context& context, const Function& function, const Arguments& arguments);

}  // namespace anyaccel::llm::chat
