// Asks a program of PATH something.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace anyaccel::launch {

enum class StandardError { shown, dropped };

/// What the program writes to its standard output, and how it ended (waitpid's status, -1 when it
/// could not be started). It reads nothing; its standard error goes where ours does, or nowhere.
std::pair<std::string, int> output_of(const std::vector<std::string>& words,
                                      StandardError errors = StandardError::shown);

}  // namespace anyaccel::launch
