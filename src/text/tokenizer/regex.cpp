#include "text/tokenizer/regex.h"

#define ONIG_ESCAPE_UCHAR_COLLISION  // because ICU defines UChar, too
#include <oniguruma.h>

#include <chrono>
#include <cstdint>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

constexpr unsigned kMatchStack = 1U << 22;      ///< limit in entries of about 32 bytes each
constexpr unsigned long kRetries = 50'000'000;  // limit per search
// Time limit for all searches in a text together, because each search may come close to its own
// limit. Real expressions need a hundredth of this time.
constexpr std::chrono::seconds kTime{5};
constexpr std::chrono::microseconds kTimePerByte{10};

std::string message_of(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, code, info);
  return std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

bool backtracks(int code) {
  return code == ONIGERR_MATCH_STACK_LIMIT_OVER || code == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER ||
         code == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

void initialize() {
  [[maybe_unused]] static const int done = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    return onig_initialize(&utf8, 1);
  }();
}

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  std::string pattern, source;
  ~Compiled() { onig_free(regex); }
};

Regex::Regex(const std::string& pattern, const std::string& source) {
  initialize();
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  compiled->source = source;
  OnigErrorInfo info;
  const OnigUChar* begin = bytes_of(pattern);
  const int code = onig_new(&compiled->regex, begin, begin + pattern.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, OnigDefaultSyntax, &info);
  if (code != ONIG_NORMAL) {
    throw Error(ErrorCode::corrupt, "load_tokenizer",
                {.what = source + ": malformed regular expression: " + message_of(code, &info),
                 .got = quoted_text(pattern)});
  }
  compiled_ = std::move(compiled);
}

std::vector<std::pair<std::size_t, std::size_t>> Regex::find_all(std::string_view text) const {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> limits(onig_new_match_param(),
                                                                          onig_free_match_param);
  onig_initialize_match_param(limits.get());
  onig_set_match_stack_limit_size_of_match_param(limits.get(), kMatchStack);
  onig_set_retry_limit_in_match_of_match_param(limits.get(), kRetries);
  onig_set_retry_limit_in_search_of_match_param(limits.get(), kRetries);
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  const auto fail = [&](const std::string& why) {
    throw Error(
        ErrorCode::invalid_argument, "Tokenizer::encode",
        {.what = compiled_->source + ": the regular expression " + quoted_text(compiled_->pattern) +
                 " fails on " + quoted_text(text, 60) + ": " + why});
  };
  const auto until = std::chrono::steady_clock::now() + kTime +
                     kTimePerByte * static_cast<std::int64_t>(text.size());
  std::size_t from = 0;
  std::size_t last_end = std::string_view::npos;
  std::size_t searches = 0;
  while (from <= text.size()) {
    if (++searches % 16 == 0 && std::chrono::steady_clock::now() > until)
      fail("it backtracks too much and takes too long");
    const int code = onig_search_with_param(compiled_->regex, begin, end, begin + from, end,
                                            region.get(), ONIG_OPTION_NONE, limits.get());
    if (code == ONIG_MISMATCH) break;
    if (code < 0)
      fail((backtracks(code) ? "it backtracks too much: " : "") + message_of(code, nullptr));
    const auto first = static_cast<std::size_t>(region->beg[0]),
               last = static_cast<std::size_t>(region->end[0]);
    if (first == last && last == last_end) {  // ignore an empty match right after another match
      from += from < text.size() ? utf8_front(text.substr(from)).length : 1;
      continue;
    }
    found.emplace_back(first, last);
    from = last_end = last;
  }
  return found;
}

}  // namespace anyaccel::llm
