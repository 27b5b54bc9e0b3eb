// Chooses the CPU's communication backend: oneCCL if a trial start succeeds, otherwise gloo.
#pragma once

#include <filesystem>
#include <string>

#include "core/communication.h"

namespace anyaccel::backends::cpu {

/// Looks for the op CCLCommBuilder without building it, then starts oneCCL in a child process as a
/// trial. The op cache stores the result: a success until the library, its folder or the
/// environment changes, a failure for an hour. If the op is not built, this costs only a few file
/// lookups. Never throws.
CommunicationChoice choose_communication() noexcept;

/// Returns text that identifies the oneCCL installation that `op_library` would load in this
/// environment on this machine. A stored result is valid only if this text has not changed.
std::string ccl_identity(const std::filesystem::path& op_library);

}  // namespace anyaccel::backends::cpu
