// What config.json says of matrices that a checkpoint holds as integers.
#pragma once

#include <filesystem>

#include "text/json.h"

namespace anyaccel::llm {

enum class StoredFormat {
  floats,
  gptq,        ///< qweight, qzeros, scales, g_idx; zeros are one less than meant
  gptq_v2,     ///< the same, zeros as meant
  awq,         ///< qweight, qzeros, scales with outputs side by side ("gemm")
  compressed,  ///< weight_packed, or weight of int8, with weight_scale (compressed-tensors)
};

struct StoredConfig {
  StoredFormat format = StoredFormat::floats;
  int bits = 0;  ///< 4 or 8; 0 where each tensor's size says it
};

/// Of config.json's object. Throws `unsupported` naming the key where its weights have a form that
/// is not read.
StoredConfig stored_config(const Json& object, const std::string& source);

/// Of a model's folder. Throws as JSON's readers do, too.
StoredConfig read_stored_config(const std::filesystem::path& folder);

}  // namespace anyaccel::llm
