// Registers the backends in this build. CMake generates the source.
#pragma once

namespace anyaccel {

/// Calls register_backend() for each backend. The registry calls it once, at its first use.
void register_built_backends();

}  // namespace anyaccel
