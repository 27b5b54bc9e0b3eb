// Plan rules from a user's file or a checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "llm/parallel/plan.h"

namespace anyaccel::llm {

/// Reads a JSON object that maps patterns to "column", "row", "vocabulary" or "replicated". If
/// `plan_file` is empty, reads base_model_tp_plan and tp_plan from config.json (transformers'
/// format), if present. Tensors that no rule matches are split by default. Throws `not_found`, or
/// `corrupt` or `unsupported` naming the file and the pattern.
std::vector<StyleRule> read_style_rules(const std::filesystem::path& folder,
                                        const std::filesystem::path& plan_file);

}  // namespace anyaccel::llm
