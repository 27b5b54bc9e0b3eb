#include "text/chat/interpreter.h"

namespace anyaccel::llm::chat {

using Kind = Statement::Kind;

std::string Interpreter::render(const Block& document, const Value& variables) {
  Scope root;
  for (const auto& [name, value] : variables.dict()->items)
    root.names.insert_or_assign(name, value);
  output_.clear();
  generated_.clear();
  generation_captured_ = false;
  run(document, root);
  return std::move(output_);
}

void Interpreter::print(const Value& value, int line) {
  const std::string text = to_text(at(line), value);
  budget_.make(text.size());
  output_ += text;
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope) {
  const Budget::Level level(budget_);
  for (const Statement& statement : block) {
    budget_.step();
    const Flow flow = run(statement, scope);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope) {
  switch (statement.kind) {
    case Kind::data:
      budget_.make(statement.text.size());
      output_ += statement.text;
      return Flow::on;
    case Kind::output: print(evaluate(*statement.value, scope), statement.line); return Flow::on;
    case Kind::set:
      assign(statement.target, evaluate(*statement.value, scope), scope, statement.line);
      return Flow::on;
    case Kind::capture: {
      Scope inner{.names = {}, .around = &scope};
      Value text = make_text(at(statement.line), captured(statement.body, inner));
      assign(statement.target, std::move(text), scope, statement.line);
      return Flow::on;
    }
    case Kind::choose: return choose(statement, scope);
    case Kind::loop: return loop(statement, scope);
    case Kind::macro:
      scope.names.insert_or_assign(statement.text, Function{.kind = Function::Kind::macro,
                                                            .name = statement.text,
                                                            .macro = &statement,
                                                            .scope = &scope});
      return Flow::on;
    case Kind::group: {
      Scope inner{.names = {}, .around = &scope};
      const std::size_t begin = output_.size();
      const Flow flow = run(statement.body, inner);
      // In a captured text, the position in the rendered text is not known yet.
      if (captures_ == 0)
        generated_.emplace_back(begin, output_.size());
      else
        generation_captured_ = true;
      return flow;
    }
    case Kind::stop: return Flow::stop;
    case Kind::next: return Flow::next;
  }
  return Flow::on;
}

std::string Interpreter::captured(const Block& block, Scope& scope) {
  std::string outside = std::exchange(output_, {});
  ++captures_;
  run(block, scope);
  --captures_;
  return std::exchange(output_, std::move(outside));
}

Interpreter::Flow Interpreter::choose(const Statement& statement, Scope& scope) {
  for (const auto& [condition, body] : statement.branches) {
    if (evaluate(*condition, scope).truth()) return run(body, scope);
  }
  return run(statement.otherwise, scope);
}

void Interpreter::assign(const Target& target, Value value, Scope& scope, int line) {
  if (!target.attribute.empty()) {
    Value object = Value::undefined(target.names[0]);
    for (const Scope* around = &scope; around && object.is_undefined(); around = around->around) {
      const auto it = around->names.find(target.names[0]);
      if (it != around->names.end()) object = it->second;
    }
    Namespace* space = object.name_space();
    if (!space)
      render_error(line, quoted(target.names[0]) + " is not a namespace, but a value of type " +
                             object.type());
    if (!value.is_data())
      outside_subset(line,
                     std::string("a namespace that contains a value of type ") + value.type());
    budget_.make(target.attribute.size() + sizeof(Value));
    space->items.insert_or_assign(target.attribute, std::move(value));
    return;
  }
  if (!target.unpack) {
    scope.names.insert_or_assign(target.names[0], std::move(value));
    return;
  }
  std::vector<Value> parts = elements(at(line), value);
  if (parts.size() != target.names.size()) {
    render_error(line, "cannot unpack " + std::to_string(parts.size()) + " values into " +
                           std::to_string(target.names.size()) + " names");
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    scope.names.insert_or_assign(target.names[i], std::move(parts[i]));
}

Interpreter::Flow Interpreter::loop(const Statement& statement, Scope& scope) {
  const Value over = evaluate(*statement.value, scope);
  auto state = std::make_shared<Loop>();
  state->items = elements(at(statement.line), over);
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& one : state->items) {
      Scope inner{.names = {}, .around = &scope};
      assign(statement.target, one, inner, statement.line);
      if (evaluate(*statement.condition, inner).truth()) kept.push_back(std::move(one));
    }
    state->items = std::move(kept);
  }
  if (state->items.empty()) {
    Scope inner{.names = {}, .around = &scope};
    return run(statement.otherwise, inner);
  }
  for (; state->index < state->items.size(); ++state->index) {
    Scope inner{.names = {}, .around = &scope};
    inner.names.insert_or_assign("loop", state);
    assign(statement.target, state->items[state->index], inner, statement.line);
    if (run(statement.body, inner) == Flow::stop) break;
  }
  return Flow::on;
}

}  // namespace anyaccel::llm::chat
