// How `anyaccel generate` prints what came out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "cli/commands/generate/prompts.h"

namespace anyaccel::cli {

/// Text, ids, counts and timings. `load_seconds`: of the model, where the result is the only one.
nlohmann::ordered_json result_json(const llm::GenerateResult& result,
                                   std::optional<double> load_seconds);

/// "1 2 3"
std::string ids_text(const std::vector<std::int64_t>& ids);

/// One of several prompts of `file`: a line of JSON, or the text (`text` false: ids) under the
/// line's number. An error goes to standard error too.
void print_result(const Prompt& prompt, const llm::GenerateResult& result, const std::string& file,
                  bool json, bool text);

}  // namespace anyaccel::cli
