// NumPy's .npy files, for comparing with other programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Writes a float32 tensor of any device. Throws `io`. Format: numpy.lib.format, version 1.0.
ANYACCEL_API void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

}  // namespace anyaccel::llm
