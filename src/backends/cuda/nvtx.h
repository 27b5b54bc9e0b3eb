// Ranges for NVIDIA's profilers (Nsight), by NVTX 3. Costs nothing while none is attached.
#pragma once

#include <string>

namespace anyaccel::backends::cuda {

/// Whether ranges can have domains and categories: this build had the NVTX 3 headers. Otherwise
/// ranges go through LibTorch's own NVTX, which has neither, where this LibTorch has CUDA.
bool nvtx_has_domains() noexcept;

/// Opens a range on this thread; empty `domain` and `category`: none. Both are remembered for the
/// process's life, so they should be few.
void nvtx_push(const std::string& message, const std::string& domain, const std::string& category);

/// Closes this thread's innermost range, in the domain in which it was opened. Nothing when none is
/// open.
void nvtx_pop();

}  // namespace anyaccel::backends::cuda
