// Checks a library before the system's loader opens it, because the loader trusts the file's
// headers.
#pragma once

#include <filesystem>
#include <string>

namespace anyaccel {

/// Returns the reason why a file is not a complete shared library for this machine, or an empty
/// string if it is one. Reads only the headers and does not run any code. (Opening a truncated
/// library would kill the process with SIGBUS in dlopen().) Never throws.
std::string library_problem(const std::filesystem::path& path) noexcept;

}  // namespace anyaccel
