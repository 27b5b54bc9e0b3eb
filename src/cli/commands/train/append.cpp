#include "cli/commands/train/append.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"

namespace anyaccel::cli {

int open_for_appending(const std::filesystem::path& path, const char* option) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  throw Error(ErrorCode::io, "train",
              {.what = std::string("cannot write the file of --") + option + ", " + path.string() +
                       ": " + std::strerror(errno)});
}

bool append_bytes(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace anyaccel::cli
