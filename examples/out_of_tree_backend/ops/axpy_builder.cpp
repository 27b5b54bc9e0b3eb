#include "ops/axpy_builder.h"

#include <anyaccel/accelerator.h>
#include <anyaccel/error.h>
#include <anyaccel/registry.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace hostcard_backend {
namespace {

namespace fs = std::filesystem;

/// The compiler of CXX, or the system's; empty when it is not in PATH.
std::string compiler() {
  const char* named = std::getenv("CXX");
  const std::string wanted = named != nullptr && *named != '\0' ? named : "c++";
  if (wanted.find('/') != std::string::npos) return ::access(wanted.c_str(), X_OK) == 0 ? wanted : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + wanted).c_str(), X_OK) == 0) return folder + "/" + wanted;
  return "";
}

/// A folder of this process's own, removed with what is in it.
struct BuildFolder {
  fs::path path;
  BuildFolder() {
    std::string name = (fs::temp_directory_path() / "hostcard-axpy.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw anyaccel::Error(anyaccel::ErrorCode::io, "AxpyBuilder::load",
                            {.what = "no folder can be made for the build", .got = name});
    path = name;
  }
  ~BuildFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

int run(std::vector<std::string> words, const fs::path& output) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (error == 0) ::waitpid(process, &status, 0);
  return status;
}

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

void build_and_open(const fs::path& source) {
  const BuildFolder folder;
  const auto needs = anyaccel::get_accelerator().build_extension();
  std::vector<std::string> words{compiler(), "-shared", "-O2"};
  words.insert(words.end(), needs.cxx_flags.begin(), needs.cxx_flags.end());
  for (const auto& path : needs.include_dirs) words.insert(words.end(), {"-isystem", path});
  for (const auto& path : needs.library_dirs) words.push_back("-L" + path);
  const auto library = folder.path / "axpy.so";
  words.insert(words.end(), {source.string(), "-o", library.string()});
  for (const auto& name : needs.libraries) words.push_back("-l" + name);
  const auto log = folder.path / "log.txt";
  if (run(words, log) != 0)
    throw anyaccel::Error(anyaccel::ErrorCode::build_failed, "AxpyBuilder::load",
                          {.what = "the compiler refused " + source.string() + ":\n" + text_of(log)});
  // Never closed: torch keeps the kernels that it registers. The file may go, the mapping stays.
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
    throw anyaccel::Error(anyaccel::ErrorCode::build_failed, "AxpyBuilder::load", {.what = ::dlerror()});
}

}  // namespace

anyaccel::Compatibility AxpyBuilder::is_compatible() const noexcept {
  try {
    if (!fs::exists(kernels_ + "/axpy.cpp")) return {false, "its source " + kernels_ + "/axpy.cpp is not there"};
    if (compiler().empty()) return {false, "there is no C++ compiler; CXX may name one"};
    return {true, ""};
  } catch (...) {
    return {false, "the machine does not tell"};
  }
}

void AxpyBuilder::load() {
  static std::once_flag once;  // a build that throws is tried again
  const auto answer = is_compatible();
  if (!answer.compatible)
    throw anyaccel::Error(anyaccel::ErrorCode::unavailable, "AxpyBuilder::load", {.what = answer.reason});
  std::call_once(once, [&] { build_and_open(kernels_ + "/axpy.cpp"); });
}

}  // namespace hostcard_backend
