// The hook that runs at the start of Python programs (src/cli/python_hook).
#pragma once

#include <string>

namespace anyaccel::cli {

/// Sets an environment variable to `value`, followed by `separator` and its old value, if any.
void prepend_variable(const char* variable, const std::string& value, char separator);

/// Throws `unavailable` if the AnyAccel installation lacks this file.
void need_file(const std::string& file, const char* where);

/// The folder that contains the Python package `anyaccel`, or "" if there is none.
std::string python_package();

/// Changes the environment so that Python programs run the hook and find AnyAccel's Python package.
/// Returns the folder that contains the package `anyaccel`, or "" if there is none.
std::string use_python_hook(const char* where);

}  // namespace anyaccel::cli
