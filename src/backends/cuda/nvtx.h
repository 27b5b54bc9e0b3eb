// Ranges for NVIDIA's profilers (Nsight), through NVTX 3. They cost nothing while no profiler is
// attached.
#pragma once

#include <string>

namespace anyaccel::backends::cuda {

/// True if ranges can have domains and categories, that is, if the NVTX 3 headers were available to
/// this build. Otherwise, if LibTorch was built with CUDA, ranges use its NVTX functions, which
/// support neither.
bool nvtx_has_domains() noexcept;

/// Opens a range on this thread. An empty `domain` or `category` means none. Both are stored for
/// the lifetime of the process, so use only a few.
void nvtx_push(const std::string& message, const std::string& domain, const std::string& category);

/// Closes this thread's innermost range, in the domain where it was opened. A no-op if none is
/// open.
void nvtx_pop();

}  // namespace anyaccel::backends::cuda
