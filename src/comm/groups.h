// Names and registration of communication backends.
#pragma once

#include <string>

namespace anyaccel::comm {

/// Name of the backend that stages tensors through host memory and runs collectives with gloo.
inline constexpr const char* kGloo = "gloo";

/// True if register_backend() was called for the name. Thread-safe.
bool is_registered(const std::string& name);

/// Ignores SIGPIPE unless the program handles it. Unlike Python programs, C++ programs would
/// otherwise be killed when they write to a peer that has closed its connection.
void survive_closed_connections();

}  // namespace anyaccel::comm
