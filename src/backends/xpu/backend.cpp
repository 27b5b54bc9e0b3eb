#include "backends/xpu/backend.h"

#include <dlfcn.h>

#include <string>

#include "backends/xpu/traits.h"

namespace anyaccel::backends::xpu {

namespace {

/// LibTorch builds without the built-in XCCL process group use the "ccl" process group of oneCCL's
/// bindings if these are loaded. Sources of the names: torch-xpu-ops, src/xccl/ProcessGroupXCCL.hpp
/// (typeinfo by the Itanium C++ ABI); intel/torch-ccl, CMakeLists.txt.
std::string communication_backend(const std::string& built_in) {
  if (dlsym(RTLD_DEFAULT, "_ZTIN4c10d16ProcessGroupXCCLE") != nullptr) return built_in;
  void* bindings = dlopen("liboneccl_bindings_for_pytorch.so", RTLD_LAZY | RTLD_NOLOAD);
  if (bindings == nullptr) return built_in;
  dlclose(bindings);
  return "ccl";
}

}  // namespace

XpuBackend::XpuBackend() : TorchBackend(xpu::traits()) {
  traits_.communication_backend = communication_backend(traits_.communication_backend);
}

}  // namespace anyaccel::backends::xpu
