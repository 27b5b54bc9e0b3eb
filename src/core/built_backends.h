// Registers the backends in this build. CMake generates the source.
#pragma once

namespace anyaccel {

/// Calls register_backend() for each backend. The registry calls this function once, when it is
/// first used.
void register_built_backends();

}  // namespace anyaccel
