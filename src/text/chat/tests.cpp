// Tests, which follow "is" in a template.
#include <algorithm>
#include <array>
#include <string_view>

#include "text/chat/operations.h"
#include "text/chat/strings.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

using Test = bool (*)(const Context&, const Value&, const std::vector<Value>&);

bool remainder_is(const Context& context, const Value& value, std::int64_t divisor,
                  std::int64_t wanted) {
  return equal(context, calculate(context, "%", value, divisor), wanted);
}

const std::string* known_operator(std::string_view name) {
  static const std::array<std::pair<const char*, std::string>, 16> kOperators{{{"eq", "=="},
                                                                               {"==", "=="},
                                                                               {"equalto", "=="},
                                                                               {"ne", "!="},
                                                                               {"!=", "!="},
                                                                               {"lt", "<"},
                                                                               {"<", "<"},
                                                                               {"lessthan", "<"},
                                                                               {"le", "<="},
                                                                               {"<=", "<="},
                                                                               {"gt", ">"},
                                                                               {">", ">"},
                                                                               {"greaterthan", ">"},
                                                                               {"ge", ">="},
                                                                               {">=", ">="},
                                                                               {"in", "in"}}};
  for (const auto& [test, op] : kOperators) {
    if (name == test) return &op;
  }
  return nullptr;
}

struct NamedTest {
  const char* name;
  std::size_t arguments;
  Test test;
};

constexpr auto kTests = std::to_array<NamedTest>({
    {"defined", 0, [](const Context&, const Value& v, const auto&) { return !v.is_undefined(); }},
    {"undefined", 0, [](const Context&, const Value& v, const auto&) { return v.is_undefined(); }},
    {"none", 0, [](const Context&, const Value& v, const auto&) { return v.is_none(); }},
    {"boolean", 0,
     [](const Context&, const Value& v, const auto&) { return v.as<bool>() != nullptr; }},
    {"true", 0,
     [](const Context&, const Value& v, const auto&) { return v.as<bool>() && v.truth(); }},
    {"false", 0,
     [](const Context&, const Value& v, const auto&) { return v.as<bool>() && !v.truth(); }},
    {"integer", 0,
     [](const Context&, const Value& v, const auto&) { return v.as<std::int64_t>() != nullptr; }},
    {"float", 0,
     [](const Context&, const Value& v, const auto&) { return v.as<double>() != nullptr; }},
    {"number", 0, [](const Context&, const Value& v, const auto&) { return v.is_number(); }},
    {"string", 0, [](const Context&, const Value& v, const auto&) { return v.text() != nullptr; }},
    {"mapping", 0, [](const Context&, const Value& v, const auto&) { return v.dict() != nullptr; }},
    {"iterable", 0,
     [](const Context&, const Value& v, const auto&) {
       return v.text() || v.list() || v.dict() || v.loop() || v.is_undefined();
     }},
    {"sequence", 0,
     [](const Context&, const Value& v, const auto&) {
       return v.text() || v.list() || v.dict() || v.is_undefined();
     }},
    {"callable", 0,
     [](const Context&, const Value& v, const auto&) { return v.function() != nullptr; }},
    {"odd", 0,
     [](const Context& c, const Value& v, const auto&) { return remainder_is(c, v, 2, 1); }},
    {"even", 0,
     [](const Context& c, const Value& v, const auto&) { return remainder_is(c, v, 2, 0); }},
    {"divisibleby", 1,
     [](const Context& c, const Value& v,
        const std::vector<Value>&
            a) { return remainder_is(c, v, integer_argument(c, "divisibleby", a[0]), 0); }},
    {"upper", 0,
     [](const Context& c, const Value& v, const auto&) { return is_upper(to_text(c, v)); }},
    {"lower", 0,
     [](const Context& c, const Value& v, const auto&) { return is_lower(to_text(c, v)); }},
});

const NamedTest* known_test(std::string_view name) {
  const auto it = std::find_if(kTests.begin(), kTests.end(),
                               [&](const NamedTest& test) { return name == test.name; });
  return it == kTests.end() ? nullptr : &*it;
}

}  // namespace

bool is_test(std::string_view name) { return known_test(name) || known_operator(name); }

bool apply_test(const Context& context, const std::string& name, const Value& input,
                const Arguments& arguments) {
  context.budget.step();
  const NamedTest* test = known_test(name);
  const std::size_t wanted = test ? test->arguments : 1;
  if (arguments.values.size() != wanted || !arguments.keywords.empty()) {
    render_error(context.line, "the test " + quoted(name) + " takes " + std::to_string(wanted) +
                                   " arguments, got " + std::to_string(arguments.values.size()));
  }
  if (test) return test->test(context, input, arguments.values);
  if (const std::string* op = known_operator(name))
    return compare(context, *op, input, arguments.values[0]);
  // The parser validates names that the template contains, but names may also come from values, as
  // in selectattr.
  outside_subset(context.line, "the test " + quoted(name));
}

}  // namespace anyaccel::llm::chat
