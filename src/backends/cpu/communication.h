// What the CPU communicates through: oneCCL where it can really start, else gloo.
#pragma once

#include <filesystem>
#include <string>

#include "core/communication.h"

namespace anyaccel::backends::cpu {

/// Looks for the op CCLCommBuilder without building it, then tries a start of oneCCL in a child
/// process, whose outcome is kept in the op cache: that it starts, until the library, its folder or
/// the environment is another; that it does not, for an hour. Where the op is not built it is a
/// look for two files. Throws nothing.
CommunicationChoice choose_communication() noexcept;

/// What tells oneCCL as `op_library` would open it, in this environment on this machine, from
/// another: text.
std::string ccl_identity(const std::filesystem::path& op_library);

}  // namespace anyaccel::backends::cpu
