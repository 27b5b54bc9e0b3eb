// A folder may contain a note that lists the renames of an interrupted save. An untrusted note is
// rejected, or renames only files in the folder.
// sources: base/file_group.cpp base/file.cpp base/error.cpp base/untrusted_text.cpp
// options: -timeout=5 -rss_limit_mb=256
#include "base/file_group.h"

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  namespace fs = std::filesystem;
  const auto& folder = fuzz::folder_with("kept", data, 0);
  fs::create_directories(folder / "inner");
  std::ofstream(folder / "a.part-1") << "new";
  fuzz::folder_with("inner/.anyaccel-commit", data, size);
  std::ofstream(folder / "inner" / "a.part-1") << "new";
  try {
    finish_file_group(folder / "inner");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::io) std::abort();
  }
  // Files outside the folder must not change.
  if (std::distance(fs::directory_iterator(folder), {}) != 3 || fs::file_size(folder / "kept") != 0)
    std::abort();
  fs::remove_all(folder / "inner");
  return 0;
}
