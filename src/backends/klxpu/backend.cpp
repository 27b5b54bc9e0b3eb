#include "backends/klxpu/backend.h"

#include "backends/klxpu/traits.h"
#include "base/env.h"

namespace anyaccel::backends::klxpu {

KlxpuBackend::KlxpuBackend() : TorchBackend(klxpu::traits()) {
  // Events of the third generation keep time; earlier ones do not, as DeepSpeed's accelerator has
  // it.
  const auto events = env("XPU_EVENT_KL3_ENABLE");
  traits_.use_host_timers = !(events && *events == "1");
}

}  // namespace anyaccel::backends::klxpu
