// A model whose matrices become integers when it is loaded.
#pragma once

#include <filesystem>

#include "anyaccel/llm/config.h"
#include "anyaccel/llm/model.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// Throws `invalid_argument` for bits that are not 0, 4 or 8, or a group that is no multiple of 32.
void check_quantization(const LoadOptions& options);

/// Makes integers of the layers' matrices and of the head, one by one; the embedding, norms, biases, routers and experts stay as they are, and so
/// does a matrix whose inputs no group divides. What a head shared with the embedding, it has of its own then.
void quantize(Weights& weights, const LoadOptions& options);

/// Where the quantized form of a folder's model is kept: below ANYACCEL_MODEL_CACHE, else anyaccel/models in XDG_CACHE_HOME or ~/.cache. The name
/// follows from the options and from path, size and time of all its files. Empty where there is no such folder.
std::filesystem::path quantized_file(const std::filesystem::path& folder, const LoadOptions& options);

/// Reads what save_quantized() wrote, from the mapped file. False where it is not there or cannot be used; a damaged one is told in a
/// warning.
bool load_quantized(Weights& weights, const std::filesystem::path& file, const std::filesystem::path& folder,
                    const LoadOptions& options);

/// Writes aside and renames. What goes wrong (no room) is a warning: the model is there all the same.
void save_quantized(Weights& weights, const std::filesystem::path& file, const std::filesystem::path& folder,
                    const LoadOptions& options);

}  // namespace anyaccel::llm
