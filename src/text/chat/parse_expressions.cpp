#include <algorithm>

#include "text/chat/parser_level.h"
#include "text/chat/vocabulary.h"

namespace anyaccel::llm::chat {

namespace {

using Kind = Expression::Kind;
constexpr int kMaxDepth = 100;

ExpressionPtr make(Kind kind, int line, std::string text = {}) {
  return std::make_unique<Expression>(
      Expression{.kind = kind, .line = line, .text = std::move(text)});
}

/// Adds an operand, or null for an omitted one.
void add(Expression& node, ExpressionPtr child) {
  if (child) node.depth = std::max(node.depth, child->depth + 1);
  if (node.depth > kMaxDepth)
    syntax_error(node.line, "an expression is too long or nested too deeply");
  node.children.push_back(std::move(child));
}

ExpressionPtr make_of(Kind kind, int line, std::string text, ExpressionPtr first,
                      ExpressionPtr second = nullptr) {
  ExpressionPtr node = make(kind, line, std::move(text));
  add(*node, std::move(first));
  if (second) add(*node, std::move(second));
  return node;
}

ExpressionPtr constant(int line, Value value) {
  ExpressionPtr node = make(Kind::constant, line);
  node->value = std::move(value);
  return node;
}

}  // namespace

ExpressionPtr Parser::expression() {
  const Level level(*this);
  ExpressionPtr value = either();
  while (is_name("if")) {
    const int line = take().line;
    ExpressionPtr node = make_of(Kind::choice, line, {}, either(), std::move(value));
    add(*node, take_name("else") ? expression() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr Parser::either() {
  ExpressionPtr left = both();
  while (is_name("or")) {
    const int line = take().line;
    left = make_of(Kind::either, line, {}, std::move(left), both());
  }
  return left;
}

ExpressionPtr Parser::both() {
  ExpressionPtr left = negation();
  while (is_name("and")) {
    const int line = take().line;
    left = make_of(Kind::both, line, {}, std::move(left), negation());
  }
  return left;
}

ExpressionPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Level level(*this);
  const int line = take().line;
  return make_of(Kind::unary, line, "not", negation());
}

ExpressionPtr Parser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node;
  for (;;) {
    std::string op;
    for (const char* one : {"==", "!=", "<", "<=", ">", ">="}) {
      if (is_op(one)) op = one;
    }
    if (is_name("in")) op = "in";
    if (is_name("not") && is(ahead(), TokenKind::name, "in")) {
      op = "not in";
      take();
    }
    if (op.empty()) return node ? std::move(node) : std::move(first);
    const int line = take().line;
    if (!node) node = make_of(Kind::compare, line, {}, std::move(first));
    node->operators.push_back(op);
    add(*node, sum());
  }
}

ExpressionPtr Parser::binary_level(std::initializer_list<const char*> operators,
                                   ExpressionPtr (Parser::*operand)()) {
  ExpressionPtr left = (this->*operand)();
  for (;;) {
    const auto found =
        std::find_if(operators.begin(), operators.end(), [&](const char* op) { return is_op(op); });
    if (found == operators.end()) return left;
    const int line = take().line;
    left = make_of(Kind::binary, line, *found, std::move(left), (this->*operand)());
  }
}

ExpressionPtr Parser::sum() { return binary_level({"+", "-"}, &Parser::join); }
ExpressionPtr Parser::join() { return binary_level({"~"}, &Parser::product); }
ExpressionPtr Parser::product() { return binary_level({"*", "/", "//", "%"}, &Parser::power); }

ExpressionPtr Parser::power() {
  ExpressionPtr left = unary();
  while (is_op("**")) {
    const int line = take().line;
    left = make_of(Kind::binary, line, "**", std::move(left), unary());
  }
  return left;
}

ExpressionPtr Parser::unary(bool filters) {
  const Level level(*this);
  ExpressionPtr node;
  if (is_op("-") || is_op("+")) {
    const Token sign = take();
    node = make_of(Kind::unary, sign.line, sign.text, unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return filters ? filtered(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary() {
  const Token token = take();
  const int line = token.line;
  if (token.kind == TokenKind::name) {
    if (token.text == "true" || token.text == "True") return constant(line, true);
    if (token.text == "false" || token.text == "False") return constant(line, false);
    if (token.text == "none" || token.text == "None") return constant(line, None{});
    return make(Kind::name, line, token.text);
  }
  if (token.kind == TokenKind::string) {
    std::string all = token.text;
    while (here().kind == TokenKind::string) all += take().text;
    return constant(line, Value(std::move(all)));
  }
  if (token.kind == TokenKind::integer) return constant(line, token.integer);
  if (token.kind == TokenKind::number) return constant(line, token.number);
  if (is(token, TokenKind::op, "(")) {
    ExpressionPtr inside = tuple(true);
    expect_op(")");
    return inside;
  }
  if (is(token, TokenKind::op, "[")) {
    ExpressionPtr list = make(Kind::list, line);
    while (!take_op("]")) {
      if (!list->children.empty()) expect_op(",");
      if (take_op("]")) break;
      add(*list, expression());
    }
    return list;
  }
  if (is(token, TokenKind::op, "{")) return dict();
  if (token.kind != TokenKind::end) --place_;
  unexpected();
}

ExpressionPtr Parser::dict() {
  ExpressionPtr node = make(Kind::dict, here().line);
  while (!take_op("}")) {
    if (!node->children.empty()) expect_op(",");
    if (take_op("}")) break;
    add(*node, expression());
    expect_op(":");
    add(*node, expression());
  }
  return node;
}

ExpressionPtr Parser::tuple(bool parentheses) {
  const int line = here().line;
  ExpressionPtr node = make(Kind::tuple, line);
  const auto at_end = [&] {
    return is_op(")") || here().kind == TokenKind::block_end ||
           here().kind == TokenKind::variable_end;
  };
  if (!at_end()) {
    ExpressionPtr first = expression();
    if (!is_op(",")) return first;
    add(*node, std::move(first));
    while (take_op(",") && !at_end()) add(*node, expression());
  } else if (!parentheses) {
    unexpected();
  }
  return node;
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
  for (;;) {
    if (is_op(".") || is_op("["))
      node = subscript(std::move(node));
    else if (is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExpressionPtr Parser::filtered(ExpressionPtr node) {
  for (;;) {
    if (is_op("|"))
      node = filter(std::move(node));
    else if (is_name("is"))
      node = test(std::move(node));
    else if (is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr node) {
  const Token token = take();
  if (token.text == ".") {
    if (here().kind == TokenKind::name)
      return make_of(Kind::attribute, token.line, take().text, std::move(node));
    if (here().kind != TokenKind::integer) unexpected();
    return make_of(Kind::item, token.line, {}, std::move(node),
                   constant(token.line, take().integer));
  }
  ExpressionPtr start = is_op(":") ? nullptr : expression();
  if (start && !is_op(":")) {
    if (is_op(",")) outside_subset(token.line, "an index with several values");
    expect_op("]");
    return make_of(Kind::item, token.line, {}, std::move(node), std::move(start));
  }
  ExpressionPtr slice = make_of(Kind::slice, token.line, {}, std::move(node));
  add(*slice, std::move(start));
  for (int part = 0; part < 2; ++part) {
    const bool given = take_op(":") && !is_op(":") && !is_op("]");
    add(*slice, given ? expression() : nullptr);
  }
  expect_op("]");
  return slice;
}

void Parser::arguments(Expression& node) {
  expect_op("(");
  for (bool first = true; !take_op(")"); first = false) {
    if (!first) expect_op(",");
    if (!first && take_op(")")) return;
    if (is_op("*") || is_op("**")) outside_subset(here().line, "a call with " + here().text);
    if (here().kind == TokenKind::name && is(ahead(), TokenKind::op, "=")) {
      std::string name = take().text;
      take();
      ExpressionPtr value = expression();
      node.depth = std::max(node.depth, value->depth + 1);
      node.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node.keywords.empty())
        syntax_error(here().line, "a call has a positional argument after a named one");
      add(node, expression());
    }
  }
}

ExpressionPtr Parser::call(ExpressionPtr node) {
  ExpressionPtr made = make_of(Kind::call, here().line, {}, std::move(node));
  arguments(*made);
  return made;
}

ExpressionPtr Parser::filter(ExpressionPtr node) {
  take();
  const int line = here().line;
  const std::string name = any_name();
  if (is_op(".") || !is_filter(name)) outside_subset(line, "the filter " + quoted(name));
  ExpressionPtr made = make_of(Kind::filter, line, name, std::move(node));
  if (is_op("(")) arguments(*made);
  return made;
}

ExpressionPtr Parser::test(ExpressionPtr node) {
  const int line = take().line;
  const bool negated = take_name("not");
  const std::string name = any_name();
  if (is_op(".") || !is_test(name)) outside_subset(line, "the test " + quoted(name));
  ExpressionPtr made = make_of(Kind::test, line, name, std::move(node));
  if (is_op("(")) {
    arguments(*made);
  } else if ((here().kind == TokenKind::name && !is_name("else") && !is_name("or") &&
              !is_name("and")) ||
             here().kind == TokenKind::string || here().kind == TokenKind::integer ||
             here().kind == TokenKind::number || is_op("[") || is_op("{")) {
    if (is_name("is")) syntax_error(line, "tests cannot be chained with \"is\"");
    const Level level(*this);
    add(*made, postfix(primary()));
  }
  return negated ? make_of(Kind::unary, line, "not", std::move(made)) : std::move(made);
}

}  // namespace anyaccel::llm::chat
