// Helper for normalizers that process one character at a time.
#pragma once

#include <string>
#include <utility>

#include "text/tokenizer/normalized_text.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

/// Replaces each character with the text that `change(character, its bytes, out)` appends to `out`.
template <typename F>
void map_characters(NormalizedText& text, F&& change) {
  std::string out;
  out.reserve(text.text.size());
  std::size_t lead = 0, at = 0;
  for_each_character(text.text, [&](char32_t c, std::string_view bytes) {
    change(c, bytes, out);
    if (at < text.lead) lead = out.size();
    at += bytes.size();
  });
  text.limit.check(out.size());
  text.text = std::move(out);
  text.lead = lead;
}

}  // namespace anyaccel::llm
