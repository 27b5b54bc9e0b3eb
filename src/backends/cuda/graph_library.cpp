#include "backends/cuda/graph_library.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include "base/dynamic_library.h"
#include "base/library_folder.h"
#include "base/trusted_path.h"

namespace anyaccel::backends::cuda {

namespace {

GraphLibrary open() {
  GraphLibrary found;
  // The graph library needs the symbols of libtorch_cuda. Python loads libtorch_cuda with
  // RTLD_LOCAL, so make its symbols global.
  if (dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr) {
    found.reason = "this process's LibTorch has no CUDA support (libtorch_cuda.so is not loaded)";
    found.without_cuda = true;
    return found;
  }
  const auto given = env_library("ANYACCEL_CUDA_GRAPH_LIBRARY");
  const auto path =
      given ? *given : (own_library_folder("create_graph") / "libanyaccel_cuda_graph.so").string();
  const auto library = DynamicLibrary::try_open(path, &found.reason, DynamicLibrary::Unload::never);
  if (!library) return found;
  const auto version =
      library.find<AnyaccelCudaGraphTorchVersion*>("anyaccel_cuda_graph_torch_version");
  found.create = library.find<AnyaccelCudaGraphCreate*>("anyaccel_cuda_graph_create");
  found.capturing = library.find<AnyaccelCudaGraphCapturing*>("anyaccel_cuda_graph_capturing");
  if (version == nullptr || found.create == nullptr || found.capturing == nullptr) {
    found.reason = path + " is not AnyAccel's CUDA graph library";
  } else if (std::string(version()) != TORCH_VERSION) {
    found.reason = path + " was built for LibTorch " + version() +
                   ", but libanyaccel was built for " TORCH_VERSION;
  }
  return found;
}

}  // namespace

const GraphLibrary& GraphLibrary::instance() noexcept {
  static const GraphLibrary* library = [] {
    try {
      return new GraphLibrary(open());
    } catch (const std::exception& error) {
      return new GraphLibrary{.create = nullptr, .capturing = nullptr, .reason = error.what()};
    }
  }();
  return *library;
}

}  // namespace anyaccel::backends::cuda
