#include "text/chat/errors.h"

#include "base/untrusted_text.h"

namespace anyaccel::llm::chat {

namespace {

constexpr const char* kWhere = "ChatTemplate";

std::string at(int line, const std::string& what) {
  return "line " + std::to_string(line) + ": " + what;
}

}  // namespace

void syntax_error(int line, const std::string& what) {
  throw Error(ErrorCode::corrupt, kWhere, {.what = at(line, what)});
}

void outside_subset(int line, const std::string& construct) {
  throw Error(ErrorCode::unsupported, kWhere,
              {.what = at(line, construct + " is not in the supported subset of Jinja"),
               .hint = "pass --raw, or use a template without it"});
}

void render_error(int line, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, kWhere, {.what = at(line, what)});
}

std::string quoted(std::string_view text) { return quoted_text(text, 100); }

void Budget::exceeded(const char* what) {
  throw Error(ErrorCode::unsupported, kWhere,
              {.what = std::string("the template exceeds the limit on ") + what,
               .hint = "check it for endless loops, or pass --raw"});
}

}  // namespace anyaccel::llm::chat
