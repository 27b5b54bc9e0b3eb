// Finds the compiler settings for an extension from the paths of this process's libraries.
#include <c10/core/DeviceType.h>
#include <torch/headeronly/version.h>

#include <filesystem>

#include "anyaccel/accelerator.h"
#include "base/library_folder.h"

namespace anyaccel {

namespace fs = std::filesystem;

BuildExtension Accelerator::build_extension() const {
  const auto ours = own_library_folder("build_extension");
  const auto torch =
      library_folder<std::string(c10::DeviceType, bool)>("build_extension", &c10::DeviceTypeName);
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
  build.cxx_flags = {"-std=c++20", "-fPIC",
                     "-D_GLIBCXX_USE_CXX11_ABI=" + std::to_string(_GLIBCXX_USE_CXX11_ABI)};
  build.torch_version = TORCH_VERSION;
  return build;
}

}  // namespace anyaccel
