// Compilers: where they are and which ones, without a shell.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::build {

/// The file of a program: a path as it is, a name looked up in PATH. Nothing when it is not there
/// or not executable. ccache in a compiler's place is passed over, so that the compiler itself is
/// known.
std::optional<std::string> find_tool(const std::string& name);

/// The C++ compiler: `wanted` (a description's own), else CXX, else c++, g++, clang++. Throws
/// `unavailable` naming what was looked for.
std::string find_compiler(const std::string& wanted);

/// nvcc: NVCC, then bin/nvcc of CUDA_HOME and CUDA_PATH, then PATH, then /usr/local/cuda. Throws
/// `unavailable`.
std::string find_nvcc();

/// Which compiler a path is: the first line of its `--version` and the size of its file. The line
/// is kept in `memo_folder` under path, size and time, so that later calls run no program. Throws
/// `unavailable` when it does not run.
std::string compiler_identity(const std::string& path, const std::filesystem::path& memo_folder);

/// What compilers get of this process's environment: what finds programs and files, and nothing
/// that changes what they do.
std::vector<std::string> build_environment();
/// The part of it that changes which headers and libraries are found, as NAME=value; it belongs to
/// the key.
std::vector<std::string> search_environment();

}  // namespace anyaccel::build
