// Methods of strings, dicts and loops.
#include <algorithm>
#include <array>

#include "text/chat/operations.h"
#include "text/chat/strings.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

using Integer = std::int64_t;
using Names = std::vector<std::string>;

/// The arguments of a method, bound to names.
class Given {
 public:
  Given(const Context& context, const std::string& called, const Arguments& arguments,
        const Names& names)
      : context_(context), called_(called), values_(bind(context, called, arguments, names)) {}
  const std::optional<Value>& operator[](std::size_t i) const { return values_[i]; }
  /// Returns nullopt if the argument is None or missing.
  std::optional<std::string> text(std::size_t i) const {
    if (!values_[i] || values_[i]->is_none()) return std::nullopt;
    return text_argument(context_, called_, *values_[i]);
  }
  std::string required(std::size_t i) const {
    if (!values_[i]) render_error(context_.line, called_ + "() is missing an argument");
    return text_argument(context_, called_, *values_[i]);
  }
  Integer integer(std::size_t i, Integer otherwise) const {
    return values_[i] ? integer_argument(context_, called_, *values_[i]) : otherwise;
  }

 private:
  const Context& context_;
  const std::string called_;
  const std::vector<std::optional<Value>> values_;
};

Value texts(const Context& context, const std::vector<std::string_view>& parts) {
  std::vector<Value> out;
  for (const std::string_view part : parts) out.push_back(make_text(context, std::string(part)));
  return make_list(context, std::move(out));
}

bool starts_or_ends(const Context& context, const std::string& text, const std::string& name,
                    const Value& with) {
  if (const List* list = with.list(); list && list->tuple) {
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& one) { return starts_or_ends(context, text, name, one); });
  }
  const std::string part = text_argument(context, name, with);
  return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
}

constexpr std::array kTextMethods{
    "capitalize",   "count",      "endswith", "find",   "isdigit", "islower",
    "isspace",      "isupper",    "join",     "lower",  "lstrip",  "removeprefix",
    "removesuffix", "replace",    "rfind",    "rsplit", "rstrip",  "split",
    "splitlines",   "startswith", "strip",    "title",  "upper"};
constexpr std::array kDictMethods{"get", "items", "keys", "values"};

template <typename Array>
bool has(const Array& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Integer found_at(const std::string& text, std::size_t place) {
  return place == std::string::npos ? -1 : character_count(std::string_view(text).substr(0, place));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, "\n", -1);
  if (lines.back().empty()) lines.pop_back();
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  return lines;
}

bool only(const std::string& text, bool (*wanted)(char32_t)) {
  const auto all = characters(text);
  return !all.empty() && std::all_of(all.begin(), all.end(), [&](std::string_view c) {
    return c.size() == 1 ? wanted(static_cast<unsigned char>(c[0]))
                         : wanted == is_space && strip_left(c).empty();
  });
}

Value strip_method(const Context& context, const std::string& text, const std::string& name,
                   const Given& given) {
  const auto set = given.text(0);
  if (set) context.budget.step(static_cast<Integer>(text.size() / 64 * set->size()));
  std::string_view out = text;
  if (name != "rstrip") out = set ? strip_left(out, *set) : strip_left(out);
  if (name != "lstrip") out = set ? strip_right(out, *set) : strip_right(out);
  return make_text(context, std::string(out));
}

Value replace_method(const Context& context, const std::string& text, const Given& given) {
  const std::string from = given.required(0), to = given.required(1);
  const Integer limit = given.integer(2, -1);
  context.budget.make(replaced_size(text, from, to, limit));
  return Value(replace(text, from, to, limit));
}

Value text_method(const Context& context, const std::string& text, const std::string& name,
                  const Arguments& a) {
  context.budget.read(text.size());
  const auto given = [&](const Names& names) { return Given(context, name, a, names); };
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return strip_method(context, text, name, given({"chars"}));
  if (name == "split" || name == "rsplit") {
    const Given g = given({"sep", "maxsplit"});
    const auto separator = g.text(0);
    if (separator && separator->empty())
      render_error(context.line, "the separator of split() must not be empty");
    return texts(context, split(text, separator, g.integer(1, -1), name == "rsplit"));
  }
  if (name == "splitlines") return given({}), texts(context, lines_of(text));
  if (name == "startswith" || name == "endswith") {
    const Given g = given({"part"});
    return starts_or_ends(context, text, name, g[0] ? *g[0] : Value());
  }
  if (name == "replace") return replace_method(context, text, given({"old", "new", "count"}));
  if (name == "find") return found_at(text, text.find(given({"part"}).required(0)));
  if (name == "rfind") return found_at(text, text.rfind(given({"part"}).required(0)));
  if (name == "count") {
    const std::string part = given({"part"}).required(0);
    if (part.empty()) return character_count(text) + 1;
    return static_cast<Integer>(split(text, part, -1).size()) - 1;
  }
  if (name == "join") {
    const Given g = given({"parts"});
    std::string out;
    bool first = true;
    for (const Value& one : elements(context, g[0] ? *g[0] : Value())) {
      context.budget.make(text.size());
      if (!first) out += text;
      out += text_argument(context, name, one);
      first = false;
    }
    return make_text(context, std::move(out));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string part = given({"part"}).required(0);
    if (name == "removeprefix")
      return make_text(context, text.starts_with(part) ? text.substr(part.size()) : text);
    return make_text(context,
                     text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text);
  }
  given({});
  if (name == "isupper") return is_upper(text);
  if (name == "islower") return is_lower(text);
  if (name == "isspace") return only(text, is_space);
  if (name == "isdigit") return only(text, [](char32_t c) { return c >= '0' && c <= '9'; });
  if (name == "upper") return make_text(context, upper(text));
  if (name == "lower") return make_text(context, lower(text));
  return make_text(context, name == "title" ? title(text) : capitalize(text));
}

Value dict_method(const Context& context, const Dict& dict, const std::string& name,
                  const Arguments& arguments) {
  const auto given =
      bind(context, name, arguments, name == "get" ? Names{"key", "default"} : Names{});
  if (name == "get") {
    context.budget.read(8 * dict.items.size());
    const Value* found = given[0] && given[0]->text() ? dict.find(*given[0]->text()) : nullptr;
    return found ? *found : given[1].value_or(Value());
  }
  std::vector<Value> out;
  for (const auto& [key, value] : dict.items) {
    if (name == "values")
      out.push_back(value);
    else if (name == "keys")
      out.push_back(make_text(context, key));
    else
      out.push_back(make_list(context, {make_text(context, key), value}, true));
  }
  return make_list(context, std::move(out));
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  return object.text()   ? has(kTextMethods, name)
         : object.dict() ? has(kDictMethods, name)
                         : object.loop() && name == "cycle";
}

Value call_method(const Context& context, const Value& object, const std::string& name,
                  const Arguments& arguments) {
  if (const std::string* text = object.text()) return text_method(context, *text, name, arguments);
  if (const Dict* dict = object.dict()) return dict_method(context, *dict, name, arguments);
  const auto& values = arguments.values;  // arguments of loop.cycle()
  if (values.empty()) render_error(context.line, "cycle() requires an argument");
  return values[object.loop()->index % values.size()];
}

}  // namespace anyaccel::llm::chat
