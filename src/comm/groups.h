// Names and registration of communication backends.
#pragma once

#include <string>

namespace anyaccel::comm {

/// The CPU's communication_backend_name() if it is not "ccl". Implemented by the staging backend.
inline constexpr const char* kGloo = "gloo";

/// Whether register_backend() was called for the name. Thread-safe.
bool is_registered(const std::string& name);

/// Ignores SIGPIPE unless the program handles it. Writing to a peer that has closed its connection
/// would otherwise end a process that, unlike Python, leaves SIGPIPE at its default.
void survive_closed_connections();

}  // namespace anyaccel::comm
