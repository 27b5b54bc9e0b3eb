// Reads environment variables for ranks from DeepSpeed's .deepspeed_env.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::launch {

/// Names and values, in the order in which they were set. Names are unique.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Parses `NAME=VALUE` lines. The value extends to the end of the line; spaces around the name and
/// the value are removed. Empty lines and lines that begin with # are ignored. `name` is the file's
/// name in error messages. Throws `invalid_argument`, naming the line.
Variables parse_environment_file(std::string_view text, const std::string& name);

/// Reads the same files as DeepSpeed: `.deepspeed_env`, or the file that DS_ENV_FILE names, first
/// in the home folder and then in the current folder. Missing files are skipped. Throws `io`, and
/// the same errors as parse_environment_file().
Variables environment_files();

/// Sets the variable `name`, replacing any earlier value.
void set(Variables& variables, const std::string& name, std::string value);

/// Returns `NAME=VALUE`.
std::string assignment(std::string name, const std::string& value);

}  // namespace anyaccel::launch
