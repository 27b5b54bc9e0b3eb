#include "base/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace anyaccel {

bool is_program(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(file.c_str(), X_OK) == 0;
}

std::optional<std::string> find_program(
    const std::string& name, const std::function<bool(const std::string& file)>& accept) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::string_view folders =
      path != nullptr ? path : "/bin:/usr/bin";  // the default of execvp()
  for (std::size_t begin = 0; begin <= folders.size();) {
    const auto end = std::min(folders.find(':', begin), folders.size());
    auto file = std::string(end == begin ? "." : folders.substr(begin, end - begin)) + "/";
    file += name;
    if (is_program(file) && (!accept || accept(file))) return file;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace anyaccel
