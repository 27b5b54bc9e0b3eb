#include "anyaccel/sdk/registration.h"
#include "backends/cpu/backend.h"
#include "backends/cpu/communication.h"
#include "backends/cpu/traits.h"
#include "core/communication.h"

namespace anyaccel::backends::cpu {

void register_backend() {
  set_communication_choice(traits().name, choose_communication);
  ::anyaccel::register_backend({.traits = traits(),
                                .create = [] { return std::make_shared<CpuBackend>(); },
                                .probe = probe});
}

}  // namespace anyaccel::backends::cpu
