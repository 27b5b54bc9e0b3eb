// Compatibility of a CUDA toolkit with LibTorch, and conversion of host compiler flags for nvcc.
#pragma once

#include <string>
#include <vector>

#include "build/libtorch.h"

namespace anyaccel::build {

/// Returns "13.0" for "Cuda compilation tools, release 13.0, V13.0.88", or an empty string if the
/// text does not contain a release.
std::string nvcc_release(const std::string& identity);

/// Returns the reason why code compiled with this nvcc cannot run with this LibTorch, or an empty
/// string if it can. The only possible reason is a different major CUDA version. A different minor
/// version is only logged, because the CUDA runtime is compatible within a major version. With
/// DS_SKIP_CUDA_CHECK=1, a different major version is also only logged.
std::string toolkit_mismatch(const LibTorch& torch, const std::string& nvcc_identity);

/// Returns the reason why this LibTorch does not support CUDA at all, or an empty string if it
/// does.
std::string no_cuda_in(const LibTorch& torch);

/// Converts a description's common compiler flags, which are written for the host compiler, to nvcc
/// flags. Flags that nvcc does not accept itself are wrapped in -Xcompiler.
std::vector<std::string> host_flags_for_nvcc(const std::vector<std::string>& flags);

}  // namespace anyaccel::build
