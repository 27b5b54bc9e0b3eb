// The registration of the backends in this build; its source is made by CMake.
#pragma once

namespace anyaccel {

/// Calls register_backend() for each of them, once, at the registry's first use.
void register_built_backends();

}  // namespace anyaccel
