// Any text becomes printable: valid UTF-8 that does not exceed the size limits and that needs no
// further escaping.
// sources: base/untrusted_text.cpp
// options: -timeout=2 -rss_limit_mb=256
#include "base/untrusted_text.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const std::size_t limit = size == 0 ? 0 : data[0];
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto quoted = quoted_text(text, limit);
  const auto printable = printable_text(text, limit);
  if (quoted.size() > 4 * limit + 32 || quoted.find('\n') != std::string::npos) std::abort();
  if (printable.size() > 4 * limit + 64) std::abort();
  for (const auto& out : {quoted, printable})
    if (printable_text(out, out.size()) != out) std::abort();
  return 0;
}
