// NumPy's .npy files, for comparisons with other programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "anyaccel/export.h"

namespace anyaccel::llm {

/// Write a float32 tensor from any device to a file in the format of numpy.lib.format, version 1.0.
/// Throws `io`.
ANYACCEL_API void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

}  // namespace anyaccel::llm
