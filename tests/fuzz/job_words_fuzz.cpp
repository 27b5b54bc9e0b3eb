// A rank's agent reads the job's command line from an environment variable. Any value of the
// variable is accepted or rejected, and every command line round-trips.
// sources: launch/foreign_options.cpp base/nearest_name.cpp launch/rank_agent.cpp launch/hosts.cpp
// sources: launch/options.cpp launch/environment_file.cpp base/error.cpp base/untrusted_text.cpp
// sources: base/env.cpp base/file.cpp
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/error.h"
#include "launch/rank_agent.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  using namespace anyaccel::launch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto words = parse_words(text);
    if (words.empty() || parse_words(format_words(words)) != words) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  // Command-line arguments cannot contain NUL bytes, so the fuzzer uses these as separators.
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '\0')
      words.emplace_back();
    else
      words.back() += c;
  }
  const auto written = format_words(words);
  if (written.find_first_of(" \t\n\"'\\$`;&|<>(){}*?") != std::string::npos ||
      parse_words(written) != words)
    std::abort();
  return 0;
}
