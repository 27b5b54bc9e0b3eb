// Programs by name.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// True for a file that can be executed; links are followed.
bool is_program(const std::string& file);

/// The file that runs when `name` is run, as execvp finds it: a name with a slash is that path,
/// there or not; another one is looked for in the folders of PATH, where an empty entry is the
/// current folder. Nothing when there is none. `accept`: what it refuses is passed over, as if it
/// were not there; paths are not asked.
ANYACCEL_API std::optional<std::string> find_program(
    const std::string& name, const std::function<bool(const std::string& file)>& accept = {});

}  // namespace anyaccel
