// Counts which ops run as OpenCL kernels and which on the host. OCL_COUNTS=1 prints the table when
// the process exits.
#pragma once

#include <string>

#include "device/runtime.h"

namespace ocl_backend {

bool counting() noexcept;
/// Counts one call of an op that ran on the host. `seconds` is its time, including the wait for the
/// device.
void count_host(const std::string& op, double seconds);
/// Counts one launch of a kernel. The event gives its time on the device.
void count_kernel(const std::string& name, cl_event event);

}  // namespace ocl_backend
