#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/error.h"
#include "cli/front/front.h"

namespace anyaccel::cli {
namespace {

std::string find_module(const char* name, const char* command) {
  const std::string folder = own_folder();
  // The library folders of an installation and of a build tree, and the program's own folder.
  std::vector<std::string> folders{folder + "/../" ANYACCEL_LIBDIR};
  if (std::string_view(ANYACCEL_LIBDIR) != "lib") folders.push_back(folder + "/../lib");
  folders.push_back(folder);
  std::string searched;
  for (const std::string& candidate : folders) {
    std::string file = candidate + "/" + name;
    if (::access(file.c_str(), F_OK) == 0) return file;
    if (!searched.empty()) searched += ", ";
    searched += candidate;
  }
  throw Error(
      ErrorCode::unavailable, command,
      {.what = std::string(name) + ", which contains this command, was not found in " + searched,
       .hint = "run `make build` in a source tree; otherwise reinstall AnyAccel, or keep "
               "its bin and lib "
               "folders next to each other"});
}

/// Limits how long OpenMP threads spin before they sleep. With libgomp's default, a busy process on
/// the same machine makes small kernels several times slower. On an idle machine, the limit costs
/// nothing. libgomp reads it when LibTorch is loaded.
void limit_spinning() {
  if (::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "5000", /*overwrite=*/0);
}

}  // namespace

std::string own_folder() {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  if (length <= 0) return ".";
  const std::string path(buffer.data(), static_cast<std::size_t>(length));
  return path.substr(0, path.rfind('/'));
}

int run_in_module(const char* name, int argc, const char* const* argv) {
  const std::string file = find_module(name, argv[1]);
  limit_spinning();
  // RTLD_LAZY, because binding all LibTorch symbols at once would take longer than the command
  // itself. RTLD_GLOBAL, because vendor libraries that are opened later need LibTorch's symbols.
  void* module = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (module == nullptr)
    throw Error(ErrorCode::unavailable, argv[1],
                {.what = std::string("the library that contains this command cannot be loaded: ") +
                         ::dlerror(),
                 .hint = "check that AnyAccel's LibTorch is still installed"});
  using Main = int (*)(int, const char* const*);
  const auto main = reinterpret_cast<Main>(::dlsym(module, "anyaccel_command_main"));
  if (main == nullptr)
    throw Error(ErrorCode::version_mismatch, argv[1],
                {.what = file + " does not belong to this version of AnyAccel: " + ::dlerror(),
                 .hint = "reinstall AnyAccel"});
  return main(argc, argv);
}

}  // namespace anyaccel::cli
