#include "anyaccel/registry.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/traits.h"

namespace anyaccel::backends::cuda {

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<CudaBackend>(); },
                              .probe = [] { return sdk::probe_torch_device(traits()); }});
}

}  // namespace anyaccel::backends::cuda
