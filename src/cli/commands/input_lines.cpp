#include "cli/commands/input_lines.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"
#include "base/file.h"

namespace anyaccel::cli {

namespace {

/// Longer lines are probably not text, and could exhaust memory.
constexpr std::size_t kMaxLine = std::size_t{64} << 20;

struct Input {
  int descriptor;
  ~Input() {
    if (descriptor != STDIN_FILENO) ::close(descriptor);
  }
};

}  // namespace

void for_each_input(const std::string& command, const std::string& text, const std::string& file,
                    const std::function<void(const std::string&)>& take) {
  if (file.empty()) {
    take(text);
    return;
  }
  const Input input{file == "-" ? STDIN_FILENO : open_input(file, command.c_str())};
  std::array<char, 65536>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills what is used
  std::string line;
  for (;;) {
    const ssize_t count = ::read(input.descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error(ErrorCode::io, command,
                  {.what = "cannot read " + file + ": " + std::strerror(errno)});
    if (count == 0) break;
    const char* const end = buffer.data() + count;
    for (const char* at = buffer.data(); at != end;) {
      const char* const stop = std::find(at, end, '\n');
      line.append(at, stop);
      if (line.size() > kMaxLine)
        throw Error(ErrorCode::corrupt, command,
                    {.what = file + " has a line that is too long",
                     .want = "at most " + std::to_string(kMaxLine) + " bytes"});
      if (stop == end) break;
      take(line);
      line.clear();
      at = stop + 1;
    }
  }
  if (!line.empty()) take(line);
}

}  // namespace anyaccel::cli
