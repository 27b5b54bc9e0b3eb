#pragma once

#include <span>

namespace anyaccel::cli {

/// Replaces this process with a Python interpreter that runs the package `name`, which is installed
/// next to the package anyaccel. Sets `variable` to the path of this program. ANYACCEL_PYTHON names
/// the interpreter. Errors name the command `where`.
[[noreturn]] void run_python_package(const char* where, const char* name, const char* variable,
                                     std::span<const char* const> arguments);

}  // namespace anyaccel::cli
