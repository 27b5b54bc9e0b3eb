// What an extension's build needs, found from where the libraries of this process lie.
#include <c10/core/DeviceType.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <filesystem>

#include "anyaccel/accelerator.h"

namespace anyaccel {

namespace {

namespace fs = std::filesystem;

/// The folder of the library that holds a function; `unavailable` when the loader cannot say.
template <typename Function>
fs::path library_folder(Function* function) {
  Dl_info info{};
  std::error_code error;
  if (::dladdr(reinterpret_cast<void*>(function), &info) != 0 && info.dli_fname != nullptr)
    if (auto path = fs::canonical(info.dli_fname, error); !error) return path.parent_path();
  throw Error(ErrorCode::unavailable, "build_extension", {.what = "the loader does not say where our libraries lie"});
}

}  // namespace

BuildExtension Accelerator::build_extension() const {
  const auto ours = library_folder(&registered_backends);
  const auto torch = library_folder<std::string(c10::DeviceType, bool)>(&c10::DeviceTypeName);
  BuildExtension build;
  const auto installed = ours.parent_path() / "include";
  if (fs::exists(installed / "anyaccel" / "accelerator.h")) {
    build.include_dirs = {installed.string()};
  } else {
    build.include_dirs = {ANYACCEL_SOURCE_INCLUDE, ANYACCEL_BINARY_INCLUDE};
  }
  const auto torch_include = torch.parent_path() / "include";
  build.include_dirs.push_back(torch_include.string());
  build.include_dirs.push_back((torch_include / "torch" / "csrc" / "api" / "include").string());
  build.library_dirs = {ours.string(), torch.string()};
  build.libraries = {"anyaccel", "anyaccel_base", "torch_cpu", "c10"};
  build.cxx_flags = {"-std=c++20", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=" + std::to_string(_GLIBCXX_USE_CXX11_ABI)};
  build.torch_version = TORCH_VERSION;
  return build;
}

}  // namespace anyaccel
