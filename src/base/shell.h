// Shell quoting.
#pragma once

#include <string>
#include <vector>

namespace anyaccel {

/// Joins words into a command line that a POSIX shell splits into the same words.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace anyaccel
