#include "text/chat/interpreter.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& node, Scope& scope) {
  const Budget::Level level(budget_);
  budget_.step();
  const Context context = at(node.line);
  const auto operand = [&](std::size_t i) { return evaluate(*node.children[i], scope); };
  switch (node.kind) {
    case Kind::constant: return node.value;
    case Kind::name: return name(node, scope);
    case Kind::list:
    case Kind::tuple: {
      std::vector<Value> items;
      for (const ExpressionPtr& child : node.children) items.push_back(evaluate(*child, scope));
      return make_list(context, std::move(items), node.kind == Kind::tuple);
    }
    case Kind::dict: {
      Arguments pairs;
      for (std::size_t i = 0; i < node.children.size(); i += 2) {
        const Value key = operand(i);
        if (!key.text()) outside_subset(node.line, std::string("a dict key of type ") + key.type());
        pairs.keywords.emplace_back(*key.text(), operand(i + 1));
      }
      return call_global(context, {.kind = Function::Kind::make_dict, .name = "dict"}, pairs);
    }
    case Kind::attribute: return attribute(context, operand(0), node.text);
    case Kind::item: {
      const Value object = operand(0);
      return item(context, object, operand(1));
    }
    case Kind::slice: {
      const Value object = operand(0), start = evaluate_part(node.children[1], scope),
                  stop = evaluate_part(node.children[2], scope);
      return slice(context, object, start, stop, evaluate_part(node.children[3], scope));
    }
    case Kind::call: return call(node, scope);
    case Kind::filter: {
      const Value input = operand(0);
      return apply_filter(context, node.text, input, arguments(node, 1, scope));
    }
    case Kind::test: {
      const Value input = operand(0);
      return apply_test(context, node.text, input, arguments(node, 1, scope));
    }
    case Kind::unary: {
      const Value value = operand(0);
      if (node.text == "not") return !value.truth();
      return node.text == "-" ? negative(context, value)
                              : calculate(context, "+", std::int64_t{0}, value);
    }
    case Kind::binary: {
      const Value left = operand(0);
      return calculate(context, node.text, left, operand(1));
    }
    case Kind::compare: return compare_all(node, scope);
    case Kind::both:
    case Kind::either: {
      Value left = operand(0);
      return left.truth() == (node.kind == Kind::both) ? operand(1) : left;
    }
    case Kind::choice:
      if (operand(0).truth()) return operand(1);
      return node.children[2] ? operand(2)
                              : Value::undefined("the value of an \"if\" without \"else\"");
  }
  return {};
}

Value Interpreter::evaluate_part(const ExpressionPtr& node, Scope& scope) {
  return node ? evaluate(*node, scope) : Value();
}

Value Interpreter::name(const Expression& node, const Scope& scope) {
  for (const Scope* at = &scope; at; at = at->around) {
    const auto it = at->names.find(node.text);
    if (it != at->names.end()) return it->second;
  }
  if (auto function = global_function(node.text)) return std::move(*function);
  return Value::undefined(node.text);
}

Value Interpreter::compare_all(const Expression& node, Scope& scope) {
  Value left = evaluate(*node.children[0], scope);
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    Value right = evaluate(*node.children[i], scope);
    if (!compare(at(node.line), node.operators[i - 1], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::arguments(const Expression& node, std::size_t first, Scope& scope) {
  Arguments out;
  for (std::size_t i = first; i < node.children.size(); ++i)
    out.values.push_back(evaluate(*node.children[i], scope));
  for (const auto& [name, value] : node.keywords)
    out.keywords.emplace_back(name, evaluate(*value, scope));
  return out;
}

Value Interpreter::call(const Expression& node, Scope& scope) {
  const Expression& called = *node.children[0];
  const Context context = at(node.line);
  Value function;
  if (called.kind == Kind::attribute) {
    const Value object = evaluate(*called.children[0], scope);
    if (has_method(object, called.text))
      return call_method(context, object, called.text, arguments(node, 1, scope));
    function = attribute(context, object, called.text);
    if (function.is_undefined() &&
        (object.text() || object.dict() || object.list() || object.loop()))
      outside_subset(node.line,
                     "the method " + quoted(called.text) + " of a value of type " + object.type());
  } else {
    function = evaluate(called, scope);
  }
  if (const Undefined* missing = function.as<Undefined>()) {
    // Jinja may or may not define this function.
    outside_subset(node.line, "the function " + quoted(*missing->name));
  }
  const Function* found = function.function();
  if (!found)
    render_error(node.line,
                 std::string("a value of type ") + function.type() + " cannot be called");
  const Arguments given = arguments(node, 1, scope);
  return found->kind == Function::Kind::macro ? call_macro(*found, given, node.line)
                                              : call_global(context, *found, given);
}

Value Interpreter::call_macro(const Function& function, const Arguments& arguments, int line) {
  const Budget::Level level(budget_);
  const Statement& macro = *function.macro;
  std::vector<std::string> names;
  for (const auto& [name, otherwise] : macro.parameters) names.push_back(name);
  auto given = bind(at(line), macro.text, arguments, names);
  Scope scope{.names = {}, .around = function.scope};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ExpressionPtr& otherwise = macro.parameters[i].second;
    if (given[i])
      scope.names.insert_or_assign(names[i], *given[i]);
    else
      scope.names.insert_or_assign(
          names[i], otherwise ? evaluate(*otherwise, scope) : Value::undefined(names[i]));
  }
  return make_text(at(line), captured(macro.body, scope));
}

}  // namespace anyaccel::llm::chat
