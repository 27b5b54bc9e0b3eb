// Whether a file can be handed to the system's loader, which trusts what it is given.
#pragma once

#include <filesystem>
#include <string>

namespace anyaccel {

/// Why a file is no shared library of this machine that is whole: empty when it is one. Reads its
/// headers alone and runs nothing: a cut-off library, for one, would end the process with SIGBUS
/// inside dlopen(). Never throws.
std::string library_problem(const std::filesystem::path& path) noexcept;

}  // namespace anyaccel
