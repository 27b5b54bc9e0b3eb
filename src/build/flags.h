// The compiler flags that an op's description may use. They are listed explicitly (an allowlist),
// because compilers have thousands of flags, and every release adds some that run programs, read or
// write files, or relax floating-point arithmetic. docs/reference/op-builders.md documents the
// list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anyaccel::build {

enum class FlagsOf { host, nvcc };

struct FlagProblem {
  std::string what;  ///< for example "\"-x\" is not ..."
  std::string want;  ///< suggested replacement; may be empty
};

/// Checks the words of one line of flags. Returns the first problem, or nullopt if all of them are
/// accepted.
///
/// Accepted flags do not run programs, do not read or write files, do not depend on the build
/// machine, and do not relax floating-point arithmetic beyond the compiler's default. Linker flags
/// are accepted but have no effect, because the flags of an op apply only to compilation.
std::optional<FlagProblem> find_flag_problem(const std::vector<std::string>& flags,
                                             FlagsOf compiler);

/// True for `-l`, `-L` and `-Wl,`.
bool is_linker_flag(std::string_view flag);

/// True if nvcc passes the argument on unchanged. nvcc starts its tools through a shell, which
/// expands `$` and backquotes.
bool is_safe_for_nvcc(std::string_view word);

}  // namespace anyaccel::build
