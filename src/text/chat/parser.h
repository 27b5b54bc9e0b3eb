// A parser for Jinja's grammar. Errors name constructs outside the supported subset.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/lexer.h"
#include "text/chat/syntax.h"

namespace anyaccel::llm::chat {

/// Parses a template. Throws `corrupt` for a malformed template and `unsupported` for constructs
/// outside the subset. Both errors name the line.
Block parse_template(std::string_view source);

/// A recursive-descent parser. Expressions and statements are in separate source files.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Block document();

 private:
  class Level;

  const Token& here() const { return tokens_[place_]; }
  const Token& ahead() const { return tokens_[std::min(place_ + 1, tokens_.size() - 1)]; }
  Token take() { return place_ + 1 < tokens_.size() ? tokens_[place_++] : tokens_.back(); }
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool is_op(std::string_view text) const { return is(here(), TokenKind::op, text); }
  bool is_name(std::string_view text) const { return is(here(), TokenKind::name, text); }
  bool take_op(std::string_view text) { return is_op(text) && (take(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (take(), true); }
  void expect_op(std::string_view text);
  void expect_name(std::string_view text);
  void expect(TokenKind kind, const char* what);
  std::string any_name();
  [[noreturn]] void unexpected() const;

  ExpressionPtr expression();  // including "a if b else c"
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr join();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool filters = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filtered(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  ExpressionPtr tuple(bool parentheses);
  ExpressionPtr dict();
  void arguments(Expression& node);
  ExpressionPtr binary_level(std::initializer_list<const char*> operators,
                             ExpressionPtr (Parser::*operand)());

  /// Parses statements up to one of the tags in `ends`, consumes the tag's name and stores it in
  /// `end`.
  Block block(std::initializer_list<std::string_view> ends, std::string* end);
  Statement statement();
  Statement set(int line);
  Statement choose(int line);
  Statement loop(int line);
  Statement macro(int line);
  Target target();

  std::vector<Token> tokens_;
  std::size_t place_ = 0;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace anyaccel::llm::chat
