// Any prompt file is read, and invalid lines are reported. The same bytes, as the value of
// --prompt-ids, are accepted, or rejected with a typed error.
// sources: cli/commands/generate/prompts.cpp cli/commands/input_lines.cpp base/file.cpp
// sources: base/error.cpp base/untrusted_text.cpp
// options: -timeout=5 -rss_limit_mb=512
#include "cli/commands/generate/prompts.h"

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const auto& folder = fuzz::folder_with("prompts", data, size);
  std::size_t line = 0;
  for (const auto& prompt : cli::read_prompts((folder / "prompts").string(), 1)) {
    if (prompt.line <= line) std::abort();
    line = prompt.line;
  }
  try {
    if (cli::parse_ids(std::string(reinterpret_cast<const char*>(data), size)).empty())
      std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
