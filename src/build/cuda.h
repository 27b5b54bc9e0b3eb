// What a CUDA toolkit and a LibTorch must agree on, and which words go to nvcc and which to the
// host's compiler behind it.
#pragma once

#include <string>
#include <vector>

#include "build/libtorch.h"

namespace anyaccel::build {

/// "13.0" of "Cuda compilation tools, release 13.0, V13.0.88"; empty when the text says none.
std::string nvcc_release(const std::string& identity);

/// Why what this nvcc compiles cannot run with this LibTorch: another major version of CUDA. Empty
/// when it can. A different minor version is a note in the log (CUDA's runtime is compatible within
/// a major version); DS_SKIP_CUDA_CHECK=1 makes one of the former.
std::string toolkit_mismatch(const LibTorch& torch, const std::string& nvcc_identity);

/// Why this LibTorch cannot run CUDA sources at all; empty when it can.
std::string no_cuda_in(const LibTorch& torch);

/// A description's flags for all sources are the host compiler's; nvcc takes some of them too and
/// gets the others wrapped.
std::vector<std::string> host_flags_for_nvcc(const std::vector<std::string>& flags);

}  // namespace anyaccel::build
