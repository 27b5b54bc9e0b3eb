// Quantization settings in config.json for matrices that a checkpoint stores quantized.
#pragma once

#include <filesystem>

#include "text/json.h"

namespace anyaccel::llm {

enum class StoredFormat {
  floats,
  gptq,     ///< qweight, qzeros, scales, g_idx; stored zero points are too small by 1
  gptq_v2,  ///< like gptq, with exact zero points
  awq,      ///< qweight, qzeros, scales; integers of adjacent outputs are packed together ("gemm")
  compressed,  ///< weight_packed, or weight of int8, with weight_scale (compressed-tensors)
};

struct StoredConfig {
  StoredFormat format = StoredFormat::floats;
  int bits = 0;  ///< 4 or 8; 0: derived from each tensor's size
};

/// Reads the quantization settings from the object in config.json. Throws `unsupported` naming the
/// key if the weights have an unsupported format.
StoredConfig stored_config(const Json& object, const std::string& source);

/// Reads config.json in a model's folder. Also throws the same errors as read_json_object().
StoredConfig read_stored_config(const std::filesystem::path& folder);

}  // namespace anyaccel::llm
