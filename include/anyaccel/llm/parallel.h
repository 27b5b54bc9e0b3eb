// How ranks share a model's weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace anyaccel::llm {

/// What the ranks have of one of a checkpoint's tensors.
struct PlannedTensor {
  std::string name;
  std::string style;                             ///< "column", "row", "vocabulary" or "replicated"
  std::vector<std::int64_t> shape;               ///< whole
  std::vector<std::vector<std::int64_t>> parts;  ///< shape by rank; empty: a bias that another rank adds
};

/// What Model::load_parallel() does with so many ranks, and what it throws for it; no weight is read.
std::vector<PlannedTensor> parallel_plan(const std::filesystem::path& folder, int ranks,
                                         const std::filesystem::path& plan_file = {});

}  // namespace anyaccel::llm
