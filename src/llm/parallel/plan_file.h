// Plans that a user or a checkpoint gives, and plans to be read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "llm/parallel/plan.h"

namespace anyaccel::llm {

/// The rules of a JSON object of patterns to "column", "row", "vocabulary" or "replicated". With an
/// empty `plan_file` those of config.json's base_model_tp_plan and tp_plan in transformers' words,
/// none where there is neither; what they do not name is split as without them. Throws `not_found`,
/// or `corrupt` or `unsupported` naming file and pattern.
std::vector<StyleRule> read_style_rules(const std::filesystem::path& folder,
                                        const std::filesystem::path& plan_file);

}  // namespace anyaccel::llm
