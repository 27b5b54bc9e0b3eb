// Case conversion and classification of characters, with ICU.
#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <memory>

#include "text/chat/errors.h"
#include "text/chat/strings.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm::chat {

namespace {

using CaseMap = std::unique_ptr<UCaseMap, decltype(&ucasemap_close)>;

void check(UErrorCode status) {
  if (U_FAILURE(status)) {
    throw Error(
        ErrorCode::internal, "ChatTemplate",
        {.what = std::string("ICU cannot convert the case of a text: ") + u_errorName(status)});
  }
}

template <typename F>
std::string mapped(const std::string& text, F map) {
  UErrorCode status = U_ZERO_ERROR;
  const CaseMap cases(ucasemap_open("", 0, &status), ucasemap_close);
  check(status);
  std::string out(text.size(), ' ');
  for (;;) {
    status = U_ZERO_ERROR;
    const auto length = map(cases.get(), out.data(), static_cast<std::int32_t>(out.size()),
                            text.data(), static_cast<std::int32_t>(text.size()), &status);
    const bool fits = static_cast<std::size_t>(length) <= out.size();
    out.resize(static_cast<std::size_t>(length));
    if (status == U_BUFFER_OVERFLOW_ERROR && !fits) continue;
    check(status);
    return out;
  }
}

/// Converts the first character of a word to title case.
std::string titlecase(std::string_view character) {
  const auto code = static_cast<UChar32>(utf8_front(character).code);
  if (u_totitle(code) == code || u_totitle(code) == u_toupper(code)) {
    std::string all = upper(std::string(character));
    // If one character becomes several (sharp s becomes SS), only the first stays in upper case.
    const std::size_t first = utf8_front(all).length;
    return all.substr(0, first) + lower(all.substr(first));
  }
  std::string out;
  append_utf8(out, static_cast<char32_t>(u_totitle(code)));
  return out;
}

/// Returns true if the text has cased characters and all of them have the requested case.
bool all_cased(const std::string& text, UProperty wanted) {
  bool found = false, other = false;
  for_each_character(text, [&](char32_t c, std::string_view) {
    const auto code = static_cast<UChar32>(c);
    const bool is_wanted = u_hasBinaryProperty(code, wanted) != 0;
    const bool titled = u_charType(code) == U_TITLECASE_LETTER;
    const bool any =
        u_hasBinaryProperty(code, UCHAR_UPPERCASE) || u_hasBinaryProperty(code, UCHAR_LOWERCASE);
    found = found || is_wanted;
    other = other || titled || (any && !is_wanted);
  });
  return found && !other;
}

}  // namespace

bool is_printable(char32_t c) {
  const auto mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return c == ' ' || (mask & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

std::string upper(const std::string& text) { return mapped(text, ucasemap_utf8ToUpper); }
std::string lower(const std::string& text) { return mapped(text, ucasemap_utf8ToLower); }

std::string capitalize(const std::string& text) {
  if (text.empty()) return text;
  const std::size_t first = utf8_front(text).length;
  // Lowercase the whole text, because the result may depend on preceding letters.
  const std::string lowered = lower(text), front = lower(text.substr(0, first));
  return titlecase(text.substr(0, first)) +
         (lowered.starts_with(front) ? lowered.substr(front.size()) : "");
}

std::string title(const std::string& text) {
  std::string out, word;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED)) {
      word += bytes;
      return;
    }
    out += capitalize(word);
    out += bytes;
    word.clear();
  });
  return out + capitalize(word);
}

std::string title_filter(const std::string& text) {
  std::string out, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const std::size_t first = utf8_front(word).length;
    out += upper(word.substr(0, first)) + lower(word.substr(first));
    word.clear();
  };
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!is_space(c) && std::string_view("-({[<").find(bytes) == std::string_view::npos) {
      word += bytes;
      return;
    }
    end_word();
    out += bytes;
  });
  end_word();
  return out;
}

bool is_upper(const std::string& text) { return all_cased(text, UCHAR_UPPERCASE); }
bool is_lower(const std::string& text) { return all_cased(text, UCHAR_LOWERCASE); }

}  // namespace anyaccel::llm::chat
