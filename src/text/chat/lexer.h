// Splits a template into tokens. Handles whitespace as Jinja does with the settings that
// transformers uses (trim_blocks, lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::llm::chat {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  number,
  op,
  end
};

struct Token {
  TokenKind kind;
  int line;
  std::string text = {};  ///< data, name or operator as written; for a string, its value
  std::int64_t integer = 0;
  double number = 0;
};

/// Returns the tokens; the last one is `end`. Throws `corrupt` or `unsupported` naming the line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace anyaccel::llm::chat
