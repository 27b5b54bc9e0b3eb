// Tensor-parallel plan: how ranks split a model's weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/model.h"

namespace anyaccel::llm {

/// How ranks split one tensor of a checkpoint.
struct PlannedTensor {
  /// Name of the tensor.
  std::string name;
  std::string style;                ///< "column", "row", "vocabulary" or "replicated"
  std::vector<std::int64_t> shape;  ///< shape of the whole tensor
  /// Shape of each rank's part. An entry is empty if that rank does not add the bias, because
  /// another rank adds it.
  std::vector<std::vector<std::int64_t>> parts;
  /// Bits per quantized weight on each rank, 8 or 4. 0: not quantized.
  std::vector<int> bits;
  /// Number of inputs per scale on each rank. 0: not quantized.
  std::vector<std::int64_t> groups;
};

/// Return the plan that Model::load_parallel() would use for this number of ranks, without reading
/// weights. Throws the same errors as load_parallel() for the same arguments. The quantized copy of
/// an embedding that is also the output layer is not included.
ANYACCEL_API std::vector<PlannedTensor> parallel_plan(const std::filesystem::path& folder,
                                                      int ranks,
                                                      const std::filesystem::path& plan_file = {},
                                                      const LoadOptions& options = {});

}  // namespace anyaccel::llm
