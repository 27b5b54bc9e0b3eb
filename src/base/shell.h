// Shell quoting.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

/// Joins words into a command line that a POSIX shell splits into the same words.
ANYACCEL_API std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace anyaccel
