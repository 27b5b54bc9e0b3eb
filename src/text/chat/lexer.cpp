#include "text/chat/lexer.h"

#include <algorithm>
#include <array>

#include "text/chat/errors.h"
#include "text/chat/literal.h"
#include "text/chat/strings.h"

namespace anyaccel::llm::chat {

namespace {

/// Normalizes line endings as Jinja does: every line ends with \n, except for the last one.
std::string normal_lines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normal_lines(source)) {}

  std::vector<Token> run() {
    while (place_ < text_.size()) root();
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  void root();
  void comment();
  void tag(bool block);
  bool tag_end(bool block);
  void token();
  void bracket(char c);
  void number();

  std::string_view rest() const { return std::string_view(text_).substr(place_); }
  bool at(std::string_view what) const { return rest().starts_with(what); }
  void add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text)});
  }
  /// Skips `count` bytes.
  void skip(std::size_t count) {
    line_ += static_cast<int>(
        std::count(rest().begin(), rest().begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    place_ += count;
  }
  void skip_space() { skip(rest().size() - strip_left(rest()).size()); }
  void data(std::string_view text, char sign, bool variable);
  /// Removes whitespace after a tag or comment, depending on its whitespace control sign and on
  /// trim_blocks.
  void trim(char sign, bool block) {
    const std::size_t before = place_;
    if (sign == '-')
      skip_space();
    else if (block && sign != '+' && at("\n"))
      skip(1);
    line_starting_ = place_ > before && text_[place_ - 1] == '\n';
  }
  /// Returns the whitespace control sign before an end marker that is `place` bytes ahead.
  char sign_before(std::size_t place) const {
    const char c = place > 0 ? rest()[place - 1] : ' ';
    return c == '-' || c == '+' ? c : ' ';
  }

  const std::string text_;
  std::size_t place_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string open_;  // closing brackets that the current tag still needs
  std::vector<Token> tokens_;
};

void Lexer::data(std::string_view text, char sign, bool variable) {
  std::string_view kept = text;
  if (sign == '-') {
    kept = strip_right(text);
  } else if (sign != '+' && !variable) {
    const std::size_t line = text.rfind('\n') + 1;  // 0 if there is no line break
    if ((line > 0 || line_starting_) && strip_left(text.substr(line)).empty())
      kept = text.substr(0, line);
  }
  if (!kept.empty()) add(TokenKind::data, std::string(kept));
  skip(text.size());
}

void Lexer::root() {
  std::size_t begin = place_;
  do {
    begin = text_.find('{', begin);
    if (begin == std::string::npos || begin + 1 >= text_.size()) {
      add(TokenKind::data, std::string(rest()));
      place_ = text_.size();
      return;
    }
    ++begin;
  } while (text_[begin] != '{' && text_[begin] != '%' && text_[begin] != '#');
  const char kind = text_[begin];
  const std::string_view text = rest().substr(0, begin - 1 - place_);
  const char after = begin + 1 < text_.size() ? text_[begin + 1] : ' ';
  const char sign = after == '-' || after == '+' ? after : ' ';
  data(text, sign, kind == '{');
  skip(sign == ' ' ? 2 : 3);
  if (kind == '#')
    comment();
  else
    tag(kind == '%');
}

void Lexer::comment() {
  const std::size_t end = rest().find("#}");
  if (end == std::string::npos) syntax_error(line_, "unterminated comment");
  const char sign = sign_before(end);
  skip(end + 2);
  trim(sign, true);
}

bool Lexer::tag_end(bool block) {
  const char sign = at("-") || (block && at("+")) ? rest().front() : ' ';
  const std::size_t length = sign == ' ' ? 0 : 1;
  if (!open_.empty() || !rest().substr(length).starts_with(block ? "%}" : "}}")) return false;
  add(block ? TokenKind::block_end : TokenKind::variable_end);
  skip(length + 2);
  trim(sign, block);
  return true;
}

void Lexer::tag(bool block) {
  add(block ? TokenKind::block_begin : TokenKind::variable_begin);
  open_.clear();
  skip_space();
  while (!tag_end(block)) {
    if (place_ >= text_.size()) syntax_error(line_, "unterminated tag");
    token();
    skip_space();
  }
}

void Lexer::token() {
  const char c = rest().front();
  if (c == '"' || c == '\'') {
    const std::size_t length = string_literal_length(rest());
    if (length == 0) syntax_error(line_, "unterminated string");
    add(TokenKind::string, string_literal(rest().substr(1, length - 2), line_));
    return skip(length);
  }
  if (is_digit(c)) return number();
  if (is_name_start(c)) {
    std::size_t length = 1;
    while (length < rest().size() && (is_name_start(rest()[length]) || is_digit(rest()[length])))
      ++length;
    add(TokenKind::name, std::string(rest().substr(0, length)));
    return skip(length);
  }
  constexpr std::array kDouble{"//", "**", "==", "!=", ">=", "<="};
  for (const char* op : kDouble) {
    if (!at(op)) continue;
    add(TokenKind::op, op);
    return skip(2);
  }
  if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
    outside_subset(line_, "the character " + quoted(rest().substr(0, 4)) + " in a tag");
  bracket(c);
  add(TokenKind::op, std::string(1, c));
  skip(1);
}

void Lexer::bracket(char c) {
  if (c == '(' || c == '[' || c == '{') open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
  if (c != ')' && c != ']' && c != '}') return;
  if (open_.empty() || open_.back() != c)
    syntax_error(line_, std::string("unexpected '") + c + "'");
  open_.pop_back();
}

void Lexer::number() {
  const bool after_dot = place_ > 0 && text_[place_ - 1] == '.';
  const NumberLiteral literal = number_literal(rest(), !after_dot, line_);
  tokens_.push_back({.kind = literal.whole ? TokenKind::integer : TokenKind::number,
                     .line = line_,
                     .text = std::string(rest().substr(0, literal.length)),
                     .integer = literal.integer,
                     .number = literal.number});
  skip(literal.length);
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace anyaccel::llm::chat
