#include "llm/data/files.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/log.h"

namespace anyaccel::llm {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> files;
  try {
    for (auto it = fs::recursive_directory_iterator(folder);
         it != fs::recursive_directory_iterator(); ++it) {
      const bool hidden = it->path().filename().string().front() == '.';
      if (hidden && it->is_directory()) it.disable_recursion_pending();
      if (!hidden && it->is_regular_file() && (!wanted || wanted(it->path())))
        files.push_back(it->path());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::io, "load_data",
                {.what = "cannot list " + folder.string() + ": " + error.code().message()});
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<std::string> read_text(const fs::path& file) {
  std::string text = read_file(file, kMaxData);
  if (text.find('\0') == std::string::npos) return text;
  log(LogLevel::info, "skipped " + file.string() + ": it contains NUL bytes, so it is not text");
  return std::nullopt;
}

}  // namespace anyaccel::llm
