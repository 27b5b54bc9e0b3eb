// Filters for strings and numbers, and the table of all filters.
#include "text/chat/filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/chat/strings.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

std::string text_of(const FilterCall& call) {
  std::string text = to_text(call.context, call.input);
  call.context.budget.read(text.size());
  return text;
}

template <auto F>
Value letters(const FilterCall& call) {
  call.bind({});
  return make_text(call.context, F(text_of(call)));
}

Value trim(const FilterCall& call) {
  const auto given = call.bind({"chars"});
  const std::string text = text_of(call);
  if (!given[0] || given[0]->is_none())
    return make_text(call.context, std::string(strip_left(strip_right(text))));
  return call_method(call.context, Value(text), "strip", {.values = {*given[0]}});
}

Value replace_filter(const FilterCall& call) {
  const auto given = call.bind({"old", "new", "count"});
  Arguments arguments;
  for (const auto& value : given) {
    if (value && !value->is_none()) arguments.values.push_back(*value);
  }
  return call_method(call.context, Value(text_of(call)), "replace", arguments);
}

Value tojson(const FilterCall& call) {
  const auto given = call.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = given[0] && given[0]->truth()};
  if (given[1] && !given[1]->is_none()) {
    const std::string* text = given[1]->text();
    const std::int64_t width = text ? 0 : integer_argument(call.context, "tojson", *given[1]);
    if (width > 100) outside_subset(call.context.line, "an indent of more than 100");
    style.indent =
        text ? *text : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    style.item_separator = ",";
  }
  if (given[2] && !given[2]->is_none()) {
    const List* pair = given[2]->list();
    if (!pair || pair->items.size() != 2)
      render_error(call.context.line, "tojson requires two separators");
    style.item_separator = text_argument(call.context, "tojson", pair->items[0]);
    style.key_separator = text_argument(call.context, "tojson", pair->items[1]);
  }
  style.sort_keys = given[3] && given[3]->truth();
  return make_text(call.context, to_json(call.context, call.input, style));
}

Value default_filter(const FilterCall& call) {
  const auto given = call.bind({"default_value", "boolean"});
  const bool empty = given[1] && given[1]->truth();
  if (!call.input.is_undefined() && !(empty && !call.input.truth())) return call.input;
  return given[0].value_or(Value(""));
}

Value string_filter(const FilterCall& call) {
  call.bind({});
  return make_text(call.context, to_text(call.context, call.input));
}

Value abs_filter(const FilterCall& call) {
  call.bind({});
  if (!call.input.is_number())
    render_error(call.context.line, std::string("abs requires a number, got ") + call.input.type());
  return call.input.number() < 0 ? negative(call.context, call.input) : call.input;
}

/// Parses a string as a number, ignoring surrounding whitespace.
std::optional<double> parsed_number(const std::string& text) {
  const std::string_view word = strip_left(strip_right(text));
  double value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

Value int_filter(const FilterCall& call) {
  const auto given = call.bind({"default", "base"});
  if (given[1]) outside_subset(call.context.line, "the filter int with a base");
  const Value otherwise = given[0].value_or(Value(std::int64_t{0}));
  if (call.input.is_integer()) return call.input.integer();
  std::optional<double> number;
  if (call.input.is_number()) number = call.input.number();
  if (const std::string* text = call.input.text()) {
    const std::string_view word = strip_left(strip_right(*text));
    std::int64_t whole = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), whole);
    if (status == std::errc() && end == word.data() + word.size()) return whole;
    number = parsed_number(*text);
  }
  if (!number || !(std::abs(*number) < 9.2e18)) return otherwise;
  return static_cast<std::int64_t>(*number);
}

Value float_filter(const FilterCall& call) {
  const auto given = call.bind({"default"});
  if (call.input.is_number()) return call.input.number();
  const auto number = call.input.text() ? parsed_number(*call.input.text()) : std::nullopt;
  return number ? Value(*number) : given[0].value_or(Value(0.0));
}

Value indent(const FilterCall& call) {
  const auto given = call.bind({"width", "first", "blank"});
  std::string by(4, ' ');
  if (given[0] && given[0]->text()) {
    by = *given[0]->text();
  } else if (given[0]) {
    const std::int64_t width = integer_argument(call.context, "indent", *given[0]);
    if (width > 100) outside_subset(call.context.line, "an indent of more than 100");
    by.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const bool first = given[1] && given[1]->truth(), blank = given[2] && given[2]->truth();
  const std::string text = text_of(call);
  std::string out;
  const auto lines = split(text, "\n", -1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    call.context.budget.make(by.size());
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += by;
    out += lines[i];
  }
  return make_text(call.context, std::move(out));
}

struct NamedFilter {
  const char* name;
  Value (*filter)(const FilterCall&);
};

constexpr auto kFilters = std::to_array<NamedFilter>({
    {"abs", abs_filter},
    {"capitalize", letters<capitalize>},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort},
    {"first", first},
    {"float", float_filter},
    {"indent", indent},
    {"int", int_filter},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length_filter},
    {"list", list},
    {"lower", letters<lower>},
    {"map", map},
    {"reject", reject},
    {"rejectattr", reject_attribute},
    {"replace", replace_filter},
    {"reverse", reverse},
    {"safe", string_filter},
    {"select", select},
    {"selectattr", select_attribute},
    {"string", string_filter},
    {"title", letters<title_filter>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", letters<upper>},
});

const NamedFilter* known_filter(std::string_view name) {
  const auto it = std::find_if(kFilters.begin(), kFilters.end(),
                               [&](const auto& filter) { return name == filter.name; });
  return it == kFilters.end() ? nullptr : &*it;
}

}  // namespace

bool is_filter(std::string_view name) { return known_filter(name) != nullptr; }

Value apply_filter(const Context& context, const std::string& name, const Value& input,
                   const Arguments& arguments) {
  context.budget.step();
  const NamedFilter* filter = known_filter(name);
  // The parser validates names that the template contains, but names may also come from values, as
  // in map.
  if (!filter) outside_subset(context.line, "the filter " + quoted(name));
  return filter->filter({context, name, input, arguments});
}

}  // namespace anyaccel::llm::chat
