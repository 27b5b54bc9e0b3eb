// What groups.cpp knows about the names of backends.
#pragma once

#include <string>

namespace anyaccel::comm {

/// The host's communication_backend_name() if it is not "ccl". The staging backend implements it.
inline constexpr const char* kGloo = "gloo";

/// Whether register_backend() was called for the name. Thread-safe.
bool is_registered(const std::string& name);

/// A peer that is gone has closed its connections, and writing there ends a process that, unlike
/// Python, leaves SIGPIPE at its default: it is ignored from then on. A handler of the program's
/// stays.
void survive_closed_connections();

}  // namespace anyaccel::comm
