// Texts that a command takes: one from its options, or each line of a file.
#pragma once

#include <functional>
#include <string>

namespace anyaccel::cli {

/// Calls `take` with `text`, or, when `file` is not empty, with each of its lines in order ("-": standard input). Throws
/// `not_found` in the name of `command` when the file cannot be opened.
void for_each_input(const std::string& command, const std::string& text, const std::string& file,
                    const std::function<void(const std::string&)>& take);

}  // namespace anyaccel::cli
