// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/value.h"

namespace anyaccel::llm::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// An expression. The comments list `children` in order, then the other members that the kind uses.
struct Expression {
  enum class Kind {
    constant,   // value
    name,       // text
    list,       // items
    tuple,      // items
    dict,       // key, value, key, value, ...
    attribute,  // object; text
    item,       // object, index
    slice,      // object, start, stop, step; each but the object may be null
    call,       // callee, arguments; keywords
    filter,     // input, arguments; text, keywords
    test,       // input, arguments; text, keywords
    unary,      // operand; text: "-", "+" or "not"
    binary,     // left, right; text: the operator
    compare,    // operands; operators between them
    both,       // left, right
    either,     // left, right
    choice      // condition, value, otherwise or null
  };
  Kind kind;
  int line;
  int depth = 1;  ///< number of levels, including this one
  std::string text = {};
  Value value = {};
  std::vector<ExpressionPtr> children = {};
  std::vector<std::pair<std::string, ExpressionPtr>> keywords = {};
  std::vector<std::string> operators = {};
};

/// Target of an assignment: one or more names, or an attribute of a namespace.
struct Target {
  std::vector<std::string> names;
  bool unpack = false;
  std::string attribute = {};  ///< attribute of the namespace `names[0]`
};

using Block = std::vector<Statement>;

/// A statement. The comments list the members that the kind uses.
struct Statement {
  enum class Kind {
    data,     // text
    output,   // value
    set,      // target, value
    capture,  // target, body: {% set x %}...{% endset %}
    choose,   // branches; body: else
    loop,     // target, value, condition or null, body, otherwise
    macro,    // text: the name, parameters with defaults or null, body
    group,    // body: {% generation %}
    stop,     // {% break %}
    next      // {% continue %}
  };
  Kind kind;
  int line;
  std::string text = {};
  Target target = {};
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  std::vector<std::pair<ExpressionPtr, Block>> branches = {};
  std::vector<std::pair<std::string, ExpressionPtr>> parameters = {};
  Block body = {};
  Block otherwise = {};
};

}  // namespace anyaccel::llm::chat
