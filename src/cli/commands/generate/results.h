// Prints the results of `anyaccel generate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/llm/generate.h"
#include "cli/commands/generate/prompts.h"

namespace anyaccel::cli {

/// Returns text, ids, counts and timings. `load_seconds`: the time to load the model; only for a
/// single prompt.
nlohmann::ordered_json result_json(const llm::GenerateResult& result,
                                   std::optional<double> load_seconds);

/// Returns the ids separated by spaces: "1 2 3".
std::string ids_text(const std::vector<std::int64_t>& ids);

/// Prints the result for one of several prompts in `file`: a line of JSON, or the line number and
/// the text (ids if `text` is false). Errors are also printed to standard error.
void print_result(const Prompt& prompt, const llm::GenerateResult& result, const std::string& file,
                  bool json, bool text);

}  // namespace anyaccel::cli
