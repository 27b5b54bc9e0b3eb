// Input texts of a command: one from its options, or each line of a file.
#pragma once

#include <functional>
#include <string>

namespace anyaccel::cli {

/// Calls `take` with `text`, or, if `file` is not empty, with each of its lines in order ("-":
/// standard input). Reads pipes line by line as data arrives. Throws with `command` as the caller:
/// `not_found`, `io`, or `corrupt` for a line of more than 64 MiB.
void for_each_input(const std::string& command, const std::string& text, const std::string& file,
                    const std::function<void(const std::string&)>& take);

}  // namespace anyaccel::cli
