#include "anyaccel/registry.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/xpu/backend.h"
#include "backends/xpu/traits.h"

namespace anyaccel::backends::xpu {

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<XpuBackend>(); },
                              .probe = [] { return sdk::probe_torch_device(traits()); }});
}

}  // namespace anyaccel::backends::xpu
