// Counts which ops run as OpenCL kernels and which on the host. OCL_COUNTS=1 prints the table when
// the process exits.
#pragma once

#include <string>

namespace ocl_backend {

bool counting() noexcept;
/// Counts one call of an op. `seconds` is the host's time in it.
void count_call(const std::string& op, bool on_host, double seconds);

}  // namespace ocl_backend
