// What can be done with values, as Python and Jinja do it. Errors name the line; cost is counted.
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

/// Where in a template something is done, and what may still be spent.
struct Context {
  Budget& budget;
  int line;
};

Value make_text(const Context& context, std::string text);
Value make_list(const Context& context, std::vector<Value> items, bool tuple = false);
Value make_dict(const Context& context, std::vector<std::pair<std::string, Value>> items);

/// str(value), as output prints it.
std::string to_text(const Context& context, const Value& value);
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps(value).
std::string to_json(const Context& context, const Value& value, const JsonStyle& style);

bool equal(const Context& context, const Value& a, const Value& b);
/// a < b of two numbers, texts or lists of them.
bool less(const Context& context, const Value& a, const Value& b);
/// a `op` b, with op one of == != < <= > >= in, not in.
bool compare(const Context& context, const std::string& op, const Value& a, const Value& b);
/// a `op` b, with op one of + - * / // % ** ~.
Value calculate(const Context& context, const std::string& op, const Value& a, const Value& b);
Value negative(const Context& context, const Value& a);

/// object.name and object[index]; undefined where there is no such thing.
Value attribute(const Context& context, const Value& object, const std::string& name);
Value item(const Context& context, const Value& object, const Value& index);
/// object[start:stop:step]; a part that is left out is none.
Value slice(const Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step);
/// What a loop goes over. Undefined is empty.
std::vector<Value> elements(const Context& context, const Value& value);
std::int64_t length(const Context& context, const Value& value);

/// What a call was given.
struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> keywords = {};
};
/// The arguments by name, nothing for those that are not given. Too many, or one twice, or an
/// unknown one are errors.
std::vector<std::optional<Value>> bind(const Context& context, const std::string& called,
                                       const Arguments& arguments,
                                       const std::vector<std::string>& names);
/// A text or number that an argument must be.
std::string text_argument(const Context& context, const std::string& called, const Value& value);
std::int64_t integer_argument(const Context& context, const std::string& called,
                              const Value& value);

Value apply_filter(const Context& context, const std::string& name, const Value& input,
                   const Arguments& arguments);
bool apply_test(const Context& context, const std::string& name, const Value& input,
                const Arguments& arguments);
Value call_method(const Context& context, const Value& object, const std::string& name,
                  const Arguments& arguments);
/// A function of `global_function`.
Value call_global(const Context& context, const Function& function, const Arguments& arguments);

}  // namespace anyaccel::llm::chat
