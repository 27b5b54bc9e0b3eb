#include "backends/klxpu/backend.h"

#include "backends/klxpu/traits.h"
#include "base/env.h"

namespace anyaccel::backends::klxpu {

KlxpuBackend::KlxpuBackend() : TorchBackend(klxpu::traits()) {
  // According to DeepSpeed's accelerator, events measure time on third-generation chips, but not on
  // earlier ones.
  const auto events = env("XPU_EVENT_KL3_ENABLE");
  traits_.use_host_timers = !(events && *events == "1");
}

}  // namespace anyaccel::backends::klxpu
