// Filters for lists and dicts.
#include <algorithm>

#include "text/chat/filters.h"
#include "text/chat/literal.h"
#include "text/chat/strings.h"

namespace anyaccel::llm::chat {

namespace {

/// Resolves a path such as "a.b.0", as accepted by map, selectattr and join.
Value by_path(const Context& context, const Value& value, const Value& path) {
  if (path.is_integer()) return item(context, value, path);
  const std::string text = text_argument(context, "attribute", path);
  Value at = value;
  for (const std::string_view part : split(text, ".", -1)) {
    const bool number =
        !part.empty() && part.size() < 10 && std::all_of(part.begin(), part.end(), is_digit);
    at =
        item(context, at,
             number ? Value(std::int64_t{std::stoi(std::string(part))}) : Value(std::string(part)));
  }
  return at;
}

/// Removes and returns the first argument.
Value shift(const FilterCall& call, Arguments& arguments) {
  if (arguments.values.empty())
    render_error(call.context.line, call.name + " is missing an argument");
  Value value = std::move(arguments.values.front());
  arguments.values.erase(arguments.values.begin());
  return value;
}

Value filter_elements(const FilterCall& call, bool by_attribute, bool wanted) {
  Arguments arguments = call.arguments;
  const Value path = by_attribute ? shift(call, arguments) : Value();
  std::optional<std::string> test;
  if (!arguments.values.empty())
    test = text_argument(call.context, call.name, shift(call, arguments));
  std::vector<Value> out;
  for (Value& one : elements(call.context, call.input)) {
    const Value value = by_attribute ? by_path(call.context, one, path) : one;
    call.context.budget.step();
    const bool holds = test ? apply_test(call.context, *test, value, arguments) : value.truth();
    if (holds == wanted) out.push_back(std::move(one));
  }
  return make_list(call.context, std::move(out));
}

}  // namespace

Value select(const FilterCall& call) { return filter_elements(call, false, true); }
Value reject(const FilterCall& call) { return filter_elements(call, false, false); }
Value select_attribute(const FilterCall& call) { return filter_elements(call, true, true); }
Value reject_attribute(const FilterCall& call) { return filter_elements(call, true, false); }

Value map(const FilterCall& call) {
  Arguments arguments = call.arguments;
  std::vector<Value> out;
  if (arguments.values.empty()) {
    const auto given = call.bind({"attribute", "default"});
    if (!given[0]) render_error(call.context.line, "map requires a filter or an attribute");
    for (const Value& one : elements(call.context, call.input)) {
      const Value value = by_path(call.context, one, *given[0]);
      out.push_back(value.is_undefined() && given[1] ? *given[1] : value);
    }
  } else {
    const std::string filter = text_argument(call.context, "map", shift(call, arguments));
    const Budget::Level level(call.context.budget);  // the filter may itself be map
    for (const Value& one : elements(call.context, call.input))
      out.push_back(apply_filter(call.context, filter, one, arguments));
  }
  return make_list(call.context, std::move(out));
}

Value join(const FilterCall& call) {
  const auto given = call.bind({"d", "attribute"});
  const std::string between = given[0] ? to_text(call.context, *given[0]) : "";
  std::string out;
  bool first = true;
  for (const Value& one : elements(call.context, call.input)) {
    const bool whole = !given[1] || given[1]->is_none();
    const std::string part =
        to_text(call.context, whole ? one : by_path(call.context, one, *given[1]));
    call.context.budget.make(part.size() + between.size());
    if (!first) out += between;
    out += part;
    first = false;
  }
  return make_text(call.context, std::move(out));
}

Value first(const FilterCall& call) {
  call.bind({});
  const std::vector<Value> all = elements(call.context, call.input);
  return all.empty() ? Value::undefined("the first element of an empty list") : all.front();
}

Value last(const FilterCall& call) {
  call.bind({});
  const std::vector<Value> all = elements(call.context, call.input);
  return all.empty() ? Value::undefined("the last element of an empty list") : all.back();
}

Value length_filter(const FilterCall& call) {
  call.bind({});
  return length(call.context, call.input);
}

Value list(const FilterCall& call) {
  call.bind({});
  return make_list(call.context, elements(call.context, call.input));
}

Value reverse(const FilterCall& call) {
  call.bind({});
  if (call.input.text()) return slice(call.context, call.input, Value(), Value(), std::int64_t{-1});
  std::vector<Value> all = elements(call.context, call.input);
  std::reverse(all.begin(), all.end());
  return make_list(call.context, std::move(all));
}

Value items(const FilterCall& call) {
  call.bind({});
  if (call.input.is_undefined()) return make_list(call.context, {});
  if (!call.input.dict())
    render_error(call.context.line, std::string("items requires a dict, got ") + call.input.type());
  return call_method(call.context, call.input, "items", {});
}

Value dictsort(const FilterCall& call) {
  call.bind({});
  if (!call.input.dict())
    render_error(call.context.line,
                 std::string("dictsort requires a dict, got ") + call.input.type());
  std::vector<std::pair<std::string, Value>> keyed;
  for (const Value& pair :
       elements(call.context, call_method(call.context, call.input, "items", {}))) {
    call.context.budget.step(16);
    keyed.emplace_back(lower(*pair.list()->items[0].text()), pair);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Value> out;
  for (auto& [key, pair] : keyed) out.push_back(std::move(pair));
  return make_list(call.context, std::move(out));
}

Value unique(const FilterCall& call) {
  call.bind({});
  std::vector<Value> seen, out;
  for (const Value& one : elements(call.context, call.input)) {
    const Value key = one.text() ? make_text(call.context, lower(*one.text())) : one;
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& old) { return equal(call.context, old, key); }))
      continue;
    seen.push_back(key);
    out.push_back(one);
  }
  return make_list(call.context, std::move(out));
}

}  // namespace anyaccel::llm::chat
