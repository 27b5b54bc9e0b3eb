// Global functions for templates, and the binding of arguments to parameters.
#include <array>
#include <ctime>

#include "base/untrusted_text.h"
#include "text/chat/operations.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

using Integer = std::int64_t;
using Kind = Function::Kind;
constexpr Integer kMaxRange = 100'000;  // limit in Jinja's sandbox

Value range(const Context& context, const Arguments& arguments) {
  const auto given = bind(context, "range", arguments, {"start", "stop", "step"});
  std::array<Integer, 3> parts{0, 0, 1};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (given[i]) parts[i] = integer_argument(context, "range", *given[i]);
  }
  if (!given[0]) render_error(context.line, "range() requires an end");
  if (!given[1]) parts = {0, parts[0], 1};
  if (parts[2] == 0) render_error(context.line, "the step of range() must not be 0");
  std::vector<Value> out;
  for (Integer i = parts[0]; parts[2] > 0 ? i < parts[1] : i > parts[1];) {
    if (static_cast<Integer>(out.size()) >= kMaxRange)
      render_error(context.line, "range() has more than " + std::to_string(kMaxRange) + " numbers");
    out.push_back(i);
    if (__builtin_add_overflow(i, parts[2], &i)) break;
  }
  return make_list(context, std::move(out));
}

/// Items for dict(...) and namespace(...): those of the positional dict argument, then the keyword
/// arguments.
std::vector<std::pair<std::string, Value>> pairs(const Context& context,
                                                 const Arguments& arguments) {
  std::vector<std::pair<std::string, Value>> out;
  if (arguments.values.size() > 1)
    render_error(context.line, "dict() takes at most one positional argument");
  if (!arguments.values.empty()) {
    const Dict* dict = arguments.values.front().dict();
    if (!dict)
      outside_subset(context.line,
                     "a dict or namespace from anything other than a dict and keyword arguments");
    out = dict->items;
  }
  for (const auto& [name, value] : arguments.keywords) {
    context.budget.read(8 * out.size());
    bool found = false;
    for (auto& [key, old] : out) {
      if (key != name) continue;
      old = value;
      found = true;
    }
    if (!found) out.emplace_back(name, value);
  }
  return out;
}

Value now(const Context& context, const Arguments& arguments) {
  const auto given = bind(context, "strftime_now", arguments, {"format"});
  const std::string format = text_argument(context, "strftime_now", given[0].value_or(Value()));
  if (format.size() > 256) outside_subset(context.line, "a time format of more than 256 bytes");
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 4096> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return make_text(context, std::string(text.data(), size));
}

}  // namespace

std::optional<Function> global_function(std::string_view name) {
  constexpr std::array kKinds{Kind::range, Kind::make_namespace, Kind::make_dict,
                              Kind::raise_exception, Kind::strftime_now};
  constexpr std::array kNames{"range", "namespace", "dict", "raise_exception", "strftime_now"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return Function{.kind = kKinds[i], .name = std::string(name)};
  }
  return std::nullopt;
}

Value call_global(const Context& context, const Function& function, const Arguments& arguments) {
  switch (function.kind) {
    case Kind::range: return range(context, arguments);
    case Kind::strftime_now: return now(context, arguments);
    case Kind::make_dict: return make_dict(context, pairs(context, arguments));
    case Kind::make_namespace: {
      auto space = std::make_shared<Namespace>();
      const Value checked = make_dict(context, pairs(context, arguments));
      for (const auto& [name, value] : checked.dict()->items)
        space->items.insert_or_assign(name, value);
      return space;
    }
    case Kind::raise_exception: {
      const auto given = bind(context, "raise_exception", arguments, {"message"});
      throw Error(ErrorCode::invalid_argument, "ChatTemplate",
                  {.what = "line " + std::to_string(context.line) +
                           ": the model's template rejects these messages: " +
                           printable_text(to_text(context, given[0].value_or(Value())), 1000)});
    }
    default:
      outside_subset(context.line, "the method " + quoted(function.name) + " without a call");
  }
}

std::vector<std::optional<Value>> bind(const Context& context, const std::string& called,
                                       const Arguments& arguments,
                                       const std::vector<std::string>& names) {
  std::vector<std::optional<Value>> out(names.size());
  if (arguments.values.size() > names.size()) {
    render_error(context.line, called + "() takes at most " + std::to_string(names.size()) +
                                   " positional arguments, got " +
                                   std::to_string(arguments.values.size()));
  }
  for (std::size_t i = 0; i < arguments.values.size(); ++i) out[i] = arguments.values[i];
  for (const auto& [name, value] : arguments.keywords) {
    std::size_t place = 0;
    while (place < names.size() && names[place] != name) ++place;
    if (place == names.size())
      render_error(context.line, called + "() has no argument " + quoted(name));
    if (out[place])
      render_error(context.line, called + "() has the argument " + quoted(name) + " twice");
    out[place] = value;
  }
  return out;
}

std::string text_argument(const Context& context, const std::string& called, const Value& value) {
  if (const std::string* text = value.text()) return *text;
  render_error(context.line, called + " requires a string, got " + value.type());
}

std::int64_t integer_argument(const Context& context, const std::string& called,
                              const Value& value) {
  if (value.is_integer()) return value.integer();
  render_error(context.line, called + " requires an integer, got " + value.type());
}

}  // namespace anyaccel::llm::chat
