// Runs a template.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/operations.h"
#include "text/chat/syntax.h"

namespace anyaccel::llm::chat {

/// Variables in a block. They shadow those of the enclosing blocks.
struct Scope {
  std::map<std::string, Value, std::less<>> names = {};
  Scope* around = nullptr;
};

class Interpreter {
 public:
  /// Begin and end of a part of the rendered text, in bytes.
  using Part = std::pair<std::size_t, std::size_t>;

  explicit Interpreter(const Limits& limits) : budget_(limits) {}
  /// Renders a template. `variables` is a dict.
  std::string render(const Block& document, const Value& variables);
  /// The parts of the rendered text that {% generation %} blocks produced. Empty if one of the
  /// blocks is in a macro or a block assignment, because the position of its text is then unknown.
  std::vector<Part> generated() const {
    return generation_captured_ ? std::vector<Part>() : generated_;
  }

 private:
  enum class Flow { on, stop, next };

  Flow run(const Block& block, Scope& scope);
  Flow run(const Statement& statement, Scope& scope);
  Flow choose(const Statement& statement, Scope& scope);
  Flow loop(const Statement& statement, Scope& scope);
  std::string captured(const Block& block, Scope& scope);
  void assign(const Target& target, Value value, Scope& scope, int line);
  void print(const Value& value, int line);

  Value evaluate(const Expression& node, Scope& scope);
  Value evaluate_part(const ExpressionPtr& node, Scope& scope);
  Value name(const Expression& node, const Scope& scope);
  Value call(const Expression& node, Scope& scope);
  Value call_macro(const Function& function, const Arguments& arguments, int line);
  Value compare_all(const Expression& node, Scope& scope);
  /// Evaluates a call's arguments: the children from `first` on, and the keyword arguments.
  Arguments arguments(const Expression& node, std::size_t first, Scope& scope);
  Context at(int line) { return {budget_, line}; }

  Budget budget_;
  std::string output_;
  int captures_ = 0;  ///< number of macro calls and block assignments around the current statement
  std::vector<Part> generated_;
  bool generation_captured_ = false;
};

}  // namespace anyaccel::llm::chat
