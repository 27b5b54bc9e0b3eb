// How ranks share a model's weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/model.h"

namespace anyaccel::llm {

/// What the ranks have of one of a checkpoint's tensors.
struct PlannedTensor {
  std::string name;
  std::string style;                ///< "column", "row", "vocabulary" or "replicated"
  std::vector<std::int64_t> shape;  ///< whole
  std::vector<std::vector<std::int64_t>>
      parts;                         ///< shape by rank; empty: a bias that another rank adds
  std::vector<int> bits;             ///< by rank: 8 or 4 where they are integers there, else 0
  std::vector<std::int64_t> groups;  ///< by rank: inputs that share a scale there, else 0
};

/// What Model::load_parallel() does with so many ranks and these options, and what it throws for
/// it; no weight is read. The integers that a tied head has beside the embedding are not told.
ANYACCEL_API std::vector<PlannedTensor> parallel_plan(const std::filesystem::path& folder,
                                                      int ranks,
                                                      const std::filesystem::path& plan_file = {},
                                                      const LoadOptions& options = {});

}  // namespace anyaccel::llm
