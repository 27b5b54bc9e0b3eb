// Reads any training file as lines and as blocks without losing or repeating bytes. Each line is
// accepted, or rejected with `corrupt` and its line number.
// sources: llm/data/input_file.cpp llm/data/record.cpp text/json.cpp
// sources: base/file.cpp base/error.cpp base/untrusted_text.cpp
// options: -timeout=5 -rss_limit_mb=512
#include "llm/data/record.h"

#include "anyaccel/error.h"
#include "llm/data/input_file.h"
#include "temporary_file.h"

namespace {

using namespace anyaccel;

void check_line(std::string_view line) {
  try {
    if (llm::parse_record(line, "file:1").content.size() > 64 * line.size() + 64) std::abort();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (error.code() != ErrorCode::corrupt || message.find("file:1") == message.npos ||
        message.size() > 2000)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder_with("data", data, size) / "data";
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  (void)llm::begins_with_record(all);
  for (const std::size_t limit : {std::size_t{16}, llm::InputFile::kMaxLine}) {
    llm::InputFile file(path, limit);
    std::size_t number = 0, bytes = 0;
    while (const auto line = file.next_line()) {
      if (line->number != ++number || line->text.size() > limit) std::abort();
      if (line->too_long && limit > size) std::abort();
      bytes += line->text.size();
      if (!line->too_long) check_line(line->text);
    }
    if (bytes > size) std::abort();
  }
  llm::InputFile file(path);
  std::string joined;
  while (const auto block = file.next_block(7)) {
    if (block->empty() || block->size() > 7) std::abort();
    joined += *block;
  }
  if (joined != all) std::abort();
  return 0;
}
