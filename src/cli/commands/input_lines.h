// Reads a command's input texts: one text from its options, or each line of a file.
#pragma once

#include <functional>
#include <string>

namespace anyaccel::cli {

/// Calls `take` with `text` or, if `file` is not empty, with each line of the file in order ("-":
/// standard input). Lines of a pipe are processed as they arrive. Throws `not_found`, `io`, or
/// `corrupt` for a line of more than 64 MiB. Errors name `command`.
void for_each_input(const std::string& command, const std::string& text, const std::string& file,
                    const std::function<void(const std::string&)>& take);

}  // namespace anyaccel::cli
