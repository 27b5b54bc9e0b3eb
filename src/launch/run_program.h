// Runs a program and captures its output.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace anyaccel::launch {

enum class StandardError { shown, dropped };

/// Runs a program from PATH with empty standard input. Returns its standard output and its status
/// from waitpid() (-1 if it could not be started).
std::pair<std::string, int> output_of(const std::vector<std::string>& words,
                                      StandardError errors = StandardError::shown);

}  // namespace anyaccel::launch
