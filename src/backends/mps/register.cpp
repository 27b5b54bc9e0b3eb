#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/mps/backend.h"
#include "backends/mps/traits.h"

namespace anyaccel::backends::mps {

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<MpsBackend>(); },
                              .probe = [] { return sdk::probe_torch_device(traits()); }});
}

}  // namespace anyaccel::backends::mps
