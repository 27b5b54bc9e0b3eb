#include "anyaccel/registry.h"
#include "backends/cpu/backend.h"
#include "backends/cpu/traits.h"

namespace anyaccel::backends::cpu {

void register_backend() {
  ::anyaccel::register_backend(
      {.traits = traits(), .create = [] { return std::make_shared<CpuBackend>(); }, .probe = probe});
}

}  // namespace anyaccel::backends::cpu
