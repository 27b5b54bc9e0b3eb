// Kernels that torch and DeepSpeed need on every device, for devices that lack them.
#pragma once

#include <c10/core/DeviceType.h>

namespace anyaccel::torch_parts {

/// Registers kernels for the ops that a PrivateUse1 device has no kernel for, and logs them:
///
/// - `record_stream`: waits for the stream. DeepSpeed's ZeRO 3, FSDP and staged collectives call
/// it.
/// - `_has_compatible_shallow_copy_type`: without it, `module.to(device)` replaces the parameters
///   (seen with LibTorch 2.13), so an optimizer created before the move does not train them.
///
/// Does nothing for other device types and after the first call. Thread-safe.
void supply_missing_kernels(c10::DeviceType type);

}  // namespace anyaccel::torch_parts
