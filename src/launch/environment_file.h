// Variables for workers from a file: DeepSpeed's .deepspeed_env.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anyaccel::launch {

/// Names and values in the order in which they are set; a later one of the same name counts.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Reads lines `NAME=VALUE`; the value is all up to the end of the line, blanks around both left
/// out. Empty lines and those that begin with # say nothing. `name` is the file's, for messages.
/// Throws `invalid_argument` naming the line.
Variables parse_environment_file(std::string_view text, const std::string& name);

/// The files that DeepSpeed reads: `.deepspeed_env`, or what DS_ENV_FILE says, in the home folder
/// and then in this one. Those that are not there are left out. Throws as parse_environment_file(),
/// and `io`.
Variables environment_files();

/// Sets `value`, in the place of an earlier one.
void set(Variables& variables, const std::string& name, std::string value);

/// `NAME=VALUE`
std::string assignment(std::string name, const std::string& value);

}  // namespace anyaccel::launch
