#include "text/tokenizer/unicode.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>

#include "text/tokenizer/icu_error.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

bool in_category(char32_t c, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0;
}

// The `tokenizers` library has its own tables, based on older Unicode versions than ICU's tables.
// Exclude characters that are newer than a table, and list those whose category has changed since
// then.
constexpr int kCategories = 8;  // crate unicode_categories
constexpr int kMarks = 9;       // crate unicode-normalization-alignments, for marks

bool known_to(char32_t c, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

}  // namespace

bool is_whitespace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool is_word(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return in_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
           (c >= 0x7b && c <= 0x7e);
  return (in_category(c, U_GC_P_MASK) && known_to(c, kCategories)) || c == 0x166d || c == 0x111c9;
}

bool is_numeric(char32_t c) { return in_category(c, U_GC_N_MASK); }
bool is_mark(char32_t c) {
  return (in_category(c, U_GC_M_MASK) && known_to(c, kMarks) && c != 0x111c9) || c == 0x1cf2 ||
         c == 0x1cf3;
}

bool is_mark_nonspacing(char32_t c) {
  if (c < 0x300) return false;
  const bool changed = c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9;
  return (in_category(c, U_GC_MN_MASK) && known_to(c, kCategories) && !changed) || c == 0x1734;
}

bool is_other(char32_t c) {
  return in_category(c, U_GC_CC_MASK | U_GC_CO_MASK | U_GC_CS_MASK) ||
         (in_category(c, U_GC_CF_MASK) && known_to(c, kCategories));
}

bool is_cjk(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

void append_lowercase(std::string& out, char32_t c) {
  if (c == 0x130) {  // the only character whose lower case is two characters
    out += "i\xcc\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
  }
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view) { append_lowercase(out, c); });
  return out;
}

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> out;
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    for (std::size_t at = 0; at < text.size(); at += out.back().size()) {
      out.push_back(text.substr(at, text.substr(at).starts_with("\r\n") ? 2 : 1));
    }
    return out;
  }
  using Breaks = std::unique_ptr<UBreakIterator, decltype(&ubrk_close)>;
  UErrorCode status = U_ZERO_ERROR;
  // Reuse the iterator: opening one takes longer than iterating over a word.
  thread_local const Breaks breaks(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status), ubrk_close);
  const std::unique_ptr<UText, decltype(&utext_close)> source(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status),
      utext_close);
  if (!breaks) status = U_MISSING_RESOURCE_ERROR;
  if (U_SUCCESS(status)) ubrk_setUText(breaks.get(), source.get(), &status);
  check_icu(status, "cannot find grapheme clusters");
  std::int32_t begin = 0;
  for (std::int32_t end = ubrk_next(breaks.get()); end != UBRK_DONE;
       end = ubrk_next(breaks.get())) {
    out.push_back(
        text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    begin = end;
  }
  return out;
}

}  // namespace anyaccel::llm
