// The parser's nesting limit.
#pragma once

#include "text/chat/errors.h"
#include "text/chat/parser.h"

namespace anyaccel::llm::chat {

/// Adds a level of nesting during its lifetime.
class Parser::Level {
 public:
  static constexpr int kMax = 100;
  explicit Level(Parser& parser) : parser_(parser) {
    if (parser_.depth_ >= kMax)
      syntax_error(parser_.here().line, "tags or brackets are nested too deeply");
    ++parser_.depth_;
  }
  ~Level() { --parser_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Parser& parser_;
};

}  // namespace anyaccel::llm::chat
