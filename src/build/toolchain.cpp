#include "build/toolchain.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/program.h"
#include "base/untrusted_text.h"
#include "build/processes.h"
#include "build/progress.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

bool is_ccache(const fs::path& file) {
  std::error_code error;
  return fs::canonical(file, error).filename() == "ccache";
}

/// True for environment variables that make ccache run a compiler other than the given one.
bool names_compiler(std::string_view entry) {
  return entry.starts_with("CCACHE_COMPILER=") || entry.starts_with("CCACHE_COMPILERTYPE=") ||
         entry.starts_with("CCACHE_PATH=");
}

}  // namespace

std::optional<std::string> find_tool(const std::string& name) {
  auto found = find_program(name, [&](const std::string& file) {
    // Ignore relative entries of PATH: anyone who can write to the current folder could replace the
    // compiler.
    return file.starts_with('/') && (name == "ccache" || !is_ccache(file));
  });
  return found && is_program(*found) ? found : std::nullopt;
}

std::string find_compiler(const std::string& wanted) {
  auto named = wanted.empty() ? env("CXX").value_or("") : wanted;
  const std::string from = wanted.empty() ? "CXX" : "the compiler of the op";
  // CMake and make accept "ccache g++". Remove the word ccache here; the build service adds it
  // itself.
  if (const auto space = named.find(' '); space != std::string::npos && !find_tool(named)) {
    auto rest = named.substr(std::min(named.find_first_not_of(' ', space), named.size()));
    if (fs::path(named.substr(0, space)).filename() == "ccache" &&
        rest.find(' ') == std::string::npos && !rest.empty())
      named = rest;
    else
      throw Error(ErrorCode::unavailable, "op builders",
                  {.what = from + " must name a single program",
                   .got = "'" + named + "'",
                   .want = "the name or path of a program, optionally after `ccache`",
                   .hint = "put the flags into a wrapper script"});
  }
  if (!named.empty()) {
    auto found = find_tool(named);
    // If this is a ccache link that is named after a compiler, use the compiler itself, which is
    // later in PATH.
    if (found && is_ccache(*found)) found = find_tool(fs::path(*found).filename().string());
    if (found && !is_ccache(*found)) return *found;
    throw Error(
        ErrorCode::unavailable, "op builders",
        {.what = "the C++ compiler " + named + " was not found",
         .hint = wanted.empty() ? "set CXX to a C++20 compiler"
                                : "install this compiler, which the op's description requires"});
  }
  for (const char* name : {"c++", "g++", "clang++"})
    if (auto found = find_tool(name)) return *found;
  throw Error(ErrorCode::unavailable, "op builders",
              {.what = "no C++ compiler was found",
               .got = "no c++, g++ or clang++ in PATH",
               .hint = "install one, or set CXX"});
}

std::string find_nvcc() {
  if (const auto named = env("NVCC")) {
    if (auto found = find_tool(*named)) return *found;
    throw Error(ErrorCode::unavailable, "op builders",
                {.what = "NVCC names " + *named + ", which was not found",
                 .hint = "set NVCC to the path of nvcc, or unset it"});
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto home = env(variable))
      if (auto found = find_tool(*home + "/bin/nvcc")) return *found;
  for (const char* name : {"nvcc", "/usr/local/cuda/bin/nvcc"})
    if (auto found = find_tool(name)) return *found;
  throw Error(ErrorCode::unavailable, "op builders",
              {.what = "this op has CUDA sources, but nvcc was not found",
               .hint = "install the CUDA toolkit, or set CUDA_HOME"});
}

std::string compiler_identity(const std::string& path, const fs::path& memo_folder) {
  struct stat info {};
  std::error_code error;
  const auto real = fs::canonical(path, error);
  if (error || ::stat(real.c_str(), &info) != 0)
    throw Error(ErrorCode::unavailable, "op builders",
                {.what = "the compiler " + path + " does not exist"});
  const auto stamp = path + "\n" + real.string() + "\n" + std::to_string(info.st_size) + "\n" +
                     std::to_string(info.st_mtim.tv_sec) + "." +
                     std::to_string(info.st_mtim.tv_nsec);
  const bool has_memo = !memo_folder.empty();
  const auto memo = memo_folder / ("tool-" + sha256(stamp).substr(0, 16));
  // The file contains the whole stamp, because its name is only part of the stamp's digest.
  if (const auto kept = has_memo ? try_read_file(memo) : std::nullopt;
      kept && kept->starts_with(stamp + "\n\n"))
    return kept->substr(stamp.size() + 2);
  Progress progress("the compiler");
  const auto said = run_program({path, "--version"}, build_environment(),
                                [&] { progress.work_on("checking the version of " + path); });
  if (said.status != 0)
    throw Error(
        ErrorCode::unavailable, "op builders",
        {.what = "the compiler " + path + " does not run: " + printable_text(said.output, 1000)});
  // nvcc prints its version on the fourth line.
  const auto release = said.output.find("Cuda compilation tools");
  const auto begin = release == std::string::npos ? 0 : release;
  auto identity = said.output.substr(begin, said.output.find('\n', begin) - begin) + " size " +
                  std::to_string(info.st_size);
  try {
    if (has_memo) write_file_atomically(memo, stamp + "\n\n" + identity);
  } catch (const Error&) {
    // Without the cached file, each load takes a few milliseconds longer.
  }
  return identity;
}

std::vector<std::string> search_environment() {
  std::vector<std::string> out;
  for (const char* name : {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH",
                           "COMPILER_PATH", "GCC_EXEC_PREFIX"})
    if (const auto value = env(name)) out.push_back(std::string(name) + "=" + *value);
  return out;
}

std::vector<std::string> build_environment() {
  auto out = search_environment();
  for (const char* name :
       {"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"})
    if (const auto value = env(name)) out.push_back(std::string(name) + "=" + *value);
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (const std::string_view name = *entry; name.starts_with("CCACHE_") && !names_compiler(name))
      out.emplace_back(*entry);
  out.emplace_back("LC_ALL=C");  // full_disk_line() looks for English messages
  return out;
}

}  // namespace anyaccel::build
