#include "text/chat/parser_level.h"

namespace anyaccel::llm::chat {

namespace {

using Kind = Statement::Kind;
constexpr std::size_t kMaxSource = std::size_t{256} << 10;

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::end: return "end of the template";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::data: return "text";
    default: return quoted(token.text);
  }
}

}  // namespace

Block parse_template(std::string_view source) {
  if (source.size() > kMaxSource)
    syntax_error(1, "the template is too large: " + std::to_string(source.size()) + " bytes");
  return Parser(tokenize(source)).document();
}

void Parser::unexpected() const { syntax_error(here().line, "unexpected " + shown(here())); }

void Parser::expect_op(std::string_view text) {
  if (!take_op(text))
    syntax_error(here().line, "expected '" + std::string(text) + "' but found " + shown(here()));
}

void Parser::expect_name(std::string_view text) {
  if (!take_name(text))
    syntax_error(here().line, "expected \"" + std::string(text) + "\" but found " + shown(here()));
}

void Parser::expect(TokenKind kind, const char* what) {
  if (here().kind != kind)
    syntax_error(here().line, std::string("expected ") + what + " but found " + shown(here()));
  take();
}

std::string Parser::any_name() {
  if (here().kind != TokenKind::name)
    syntax_error(here().line, "expected a name but found " + shown(here()));
  return take().text;
}

Block Parser::document() { return block({}, nullptr); }

Block Parser::block(std::initializer_list<std::string_view> ends, std::string* end) {
  const Level level(*this);
  Block out;
  for (;;) {
    const int line = here().line;
    if (here().kind == TokenKind::data) {
      out.push_back({.kind = Kind::data, .line = line, .text = take().text});
    } else if (here().kind == TokenKind::variable_begin) {
      take();
      Statement output{.kind = Kind::output, .line = line};
      output.value = tuple(false);
      expect(TokenKind::variable_end, "'}}'");
      out.push_back(std::move(output));
    } else if (here().kind == TokenKind::block_begin) {
      take();
      for (const std::string_view name : ends) {
        if (!is_name(name)) continue;
        *end = take().text;
        return out;
      }
      out.push_back(statement());
      expect(TokenKind::block_end, "'%}'");
    } else {
      if (ends.size() > 0) {
        syntax_error(line, "the template ends before \"" + std::string(*(ends.end() - 1)) + "\"");
      }
      return out;
    }
  }
}

Statement Parser::statement() {
  const int line = here().line;
  const std::string tag = any_name();
  if (tag == "set") return set(line);
  if (tag == "if") return choose(line);
  if (tag == "for") return loop(line);
  if (tag == "macro") return macro(line);
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) syntax_error(line, "the tag \"" + tag + "\" is outside a loop");
    return {.kind = tag == "break" ? Kind::stop : Kind::next, .line = line};
  }
  if (tag == "generation") {
    expect(TokenKind::block_end, "'%}'");
    Statement group{.kind = Kind::group, .line = line};
    std::string end;
    const int loops = std::exchange(loops_, 0);
    group.body = block({"endgeneration"}, &end);
    loops_ = loops;
    return group;
  }
  if (tag.starts_with("end") || tag == "else" || tag == "elif")
    syntax_error(line, "the tag \"" + tag + "\" has no matching opening tag");
  outside_subset(line, "the tag " + quoted(tag));
}

Target Parser::target() {
  Target out;
  const bool parentheses = take_op("(");
  do {
    if (!out.names.empty() && (is_name("in") || is_op("=") || is_op(")"))) break;
    if (is_op("(")) outside_subset(here().line, "unpacking within unpacking");
    out.names.push_back(any_name());
    const std::string& name = out.names.back();
    for (const char* reserved : {"true", "false", "none", "True", "False", "None"}) {
      if (name == reserved) syntax_error(here().line, "cannot assign to " + name);
    }
    if (take_op(".")) {
      out.attribute = any_name();
      if (is_op(",") || out.names.size() > 1)
        outside_subset(here().line, "unpacking into a namespace");
    }
    out.unpack = out.unpack || is_op(",");
  } while (take_op(","));
  if (parentheses) expect_op(")");
  return out;
}

Statement Parser::set(int line) {
  Statement out{.kind = Kind::set, .line = line};
  out.target = target();
  if (take_op("=")) {
    out.value = tuple(false);
    return out;
  }
  if (is_op("|")) outside_subset(line, "a filter on a block assignment");
  if (out.target.unpack) unexpected();
  expect(TokenKind::block_end, "'%}'");
  out.kind = Kind::capture;
  std::string end;
  const int loops = std::exchange(loops_, 0);
  out.body = block({"endset"}, &end);
  loops_ = loops;
  return out;
}

Statement Parser::choose(int line) {
  Statement out{.kind = Kind::choose, .line = line};
  std::string end = "if";
  while (end != "endif") {
    if (end == "else") {
      expect(TokenKind::block_end, "'%}'");
      out.otherwise = block({"endif"}, &end);
    } else {
      ExpressionPtr condition = tuple(false);
      expect(TokenKind::block_end, "'%}'");
      Block body = block({"elif", "else", "endif"}, &end);
      out.branches.emplace_back(std::move(condition), std::move(body));
    }
  }
  return out;
}

Statement Parser::loop(int line) {
  Statement out{.kind = Kind::loop, .line = line};
  out.target = target();
  if (!out.target.attribute.empty()) outside_subset(line, "a loop over a namespace's attribute");
  expect_name("in");
  // As in Jinja, the loop's iterable must not be a conditional expression. Otherwise, the loop's
  // `if` would be parsed as part of one.
  out.value = either();
  if (is_op(",")) outside_subset(line, "a loop over a tuple without parentheses");
  if (take_name("if")) out.condition = expression();
  if (is_name("recursive")) outside_subset(line, "a recursive loop");
  expect(TokenKind::block_end, "'%}'");
  std::string end;
  ++loops_;
  out.body = block({"else", "endfor"}, &end);
  --loops_;
  if (end == "else") {
    expect(TokenKind::block_end, "'%}'");
    out.otherwise = block({"endfor"}, &end);
  }
  return out;
}

Statement Parser::macro(int line) {
  Statement out{.kind = Kind::macro, .line = line, .text = any_name()};
  expect_op("(");
  while (!take_op(")")) {
    if (!out.parameters.empty()) expect_op(",");
    if (take_op(")")) break;
    std::string name = any_name();
    ExpressionPtr otherwise = take_op("=") ? expression() : nullptr;
    if (!otherwise && !out.parameters.empty() && out.parameters.back().second)
      syntax_error(line, "a parameter without a default follows one that has one");
    out.parameters.emplace_back(std::move(name), std::move(otherwise));
  }
  expect(TokenKind::block_end, "'%}'");
  std::string end;
  const int loops = std::exchange(loops_, 0);
  out.body = block({"endmacro"}, &end);
  loops_ = loops;
  return out;
}

}  // namespace anyaccel::llm::chat
