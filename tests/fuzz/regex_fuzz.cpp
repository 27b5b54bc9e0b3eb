// Input: a regular expression and, after a NUL byte, a text. The expression is rejected with a
// typed error that names the source of the expression, or the text is searched in bounded time.
// sources: text/tokenizer/regex.cpp text/tokenizer/utf8.cpp base/error.cpp base/untrusted_text.cpp
// libraries: onig icuuc
// options: -timeout=30 -rss_limit_mb=1024 -max_len=512
#include "text/tokenizer/regex.h"

#include <cstdint>
#include <cstdlib>

#include "anyaccel/error.h"
#include "text/tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto zero = std::min(all.find('\0'), size);
  const std::string text = llm::utf8_lossy(all.substr(std::min(zero + 1, size)));
  try {
    const llm::Regex regex(std::string(all.substr(0, zero)), "a place");
    std::size_t last = 0;
    for (const auto& [begin, end] : regex.find_all(text)) {
      if (begin < last || end < begin || end > text.size()) std::abort();
      last = end;
    }
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::invalid_argument)
      std::abort();
    if (message.find("a place") == std::string_view::npos || message.size() > 2000) std::abort();
  }
  return 0;
}
