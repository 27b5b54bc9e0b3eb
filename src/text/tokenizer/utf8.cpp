#include "text/tokenizer/utf8.h"

#include <unicode/utf8.h>

#include <algorithm>

namespace anyaccel::llm {

Utf8Character utf8_front(std::string_view text) {
  // A character has at most 4 bytes. Do not pass more, because the macro uses `int` for lengths.
  const int size = static_cast<int>(std::min<std::size_t>(text.size(), 4));
  const char* bytes = text.data();
  int next = 0;
  UChar32 code = 0;
  U8_NEXT(bytes, next, size, code);
  return {code < 0 ? U'\xfffd' : static_cast<char32_t>(code), static_cast<std::size_t>(next),
          code >= 0};
}

void append_utf8(std::string& out, char32_t code) {
  char bytes[U8_MAX_LENGTH];
  int size = 0;
  U8_APPEND_UNSAFE(bytes, size, static_cast<UChar32>(code));
  out.append(bytes, static_cast<std::size_t>(size));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character front = utf8_front(text);
    if (!front.valid) return false;
    text.remove_prefix(front.length);
  }
  return true;
}

std::string utf8_lossy(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character front = utf8_front(text);
    if (front.valid) {
      out += text.substr(0, front.length);
    } else {
      append_utf8(out, U'\xfffd');
    }
    text.remove_prefix(front.length);
  }
  return out;
}

}  // namespace anyaccel::llm
