// Commands as people type them.
#pragma once

#include <string>
#include <vector>

namespace anyaccel {

/// A command as it can be typed into a shell.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace anyaccel
