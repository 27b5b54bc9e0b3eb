// Finds programs by name.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// True for an executable regular file; follows links.
bool is_program(const std::string& file);

/// Returns the file that execvp would run for `name`. A name with a slash is returned unchanged,
/// even if the file does not exist. Other names are searched for in the folders of PATH, where an
/// empty entry means the current folder. Returns nullopt if there is no such file. Files that
/// `accept` rejects are skipped; `accept` is not called for names with a slash.
ANYACCEL_API std::optional<std::string> find_program(
    const std::string& name, const std::function<bool(const std::string& file)>& accept = {});

}  // namespace anyaccel
