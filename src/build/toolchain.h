// Finds and identifies compilers, without a shell.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::build {

/// Returns the path of a program. `name` is a path, or a name to look up in PATH. Returns nullopt
/// if the program does not exist or is not executable. ccache links that are named after a compiler
/// are skipped, so that the compiler itself is found.
std::optional<std::string> find_tool(const std::string& name);

/// Returns the path of the C++ compiler: `wanted` (from the description) if it is not empty,
/// otherwise CXX if it is set, otherwise c++, g++ or clang++. Throws `unavailable`, naming the
/// missing program.
std::string find_compiler(const std::string& wanted);

/// Returns the path of nvcc: NVCC if it is set, otherwise the first of these that exists: bin/nvcc
/// in CUDA_HOME or CUDA_PATH, nvcc in PATH, /usr/local/cuda/bin/nvcc. Throws `unavailable`.
std::string find_nvcc();

/// Returns the identity of a compiler: the version line of `--version` and the size of the file.
/// The identity is cached in `memo_folder` by path, size and modification time, so that later calls
/// do not run the compiler. Throws `unavailable` if the compiler does not run.
std::string compiler_identity(const std::string& path, const std::filesystem::path& memo_folder);

/// Returns the environment for compilers: the variables of this process that determine which
/// programs and files are found, excluding those that change the compiler's behavior.
std::vector<std::string> build_environment();
/// Returns the environment variables that determine which headers and libraries are found, as
/// NAME=value. They are part of the key.
std::vector<std::string> search_environment();

}  // namespace anyaccel::build
