#include "cli/commands/generate/results.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "anyaccel/accelerator.h"
#include "cli/commands/commands.h"

namespace anyaccel::cli {

namespace {

double rate(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

}  // namespace

nlohmann::ordered_json result_json(const llm::GenerateResult& result,
                                   std::optional<double> load_seconds) {
  const auto tokens = static_cast<std::int64_t>(result.ids.size());
  const bool ended = result.finish == llm::FinishReason::end_of_text;
  // The prefill computes the first token. An end-of-text token was computed, but is not in `ids`.
  const std::int64_t decoded = std::max<std::int64_t>(0, tokens + (ended ? 1 : 0) - 1);
  nlohmann::ordered_json out = {
      {"accelerator", get_accelerator().name()},
      {"text", result.text},
      {"ids", result.ids},
      {"finish_reason", llm::to_string(result.finish)},
      {"prompt_tokens", result.prompt_tokens},
      {"cached_tokens", result.cached_tokens},
      {"new_tokens", tokens},
      {"drafted", result.drafted},
      {"accepted", result.accepted},
      {"prefill_seconds", result.prefill_seconds},
      {"first_token_seconds", result.first_token_seconds},
      {"decode_seconds", result.decode_seconds},
      {"prefill_tokens_per_second",
       rate(result.prompt_tokens - result.cached_tokens, result.prefill_seconds)},
      {"decode_tokens_per_second", rate(decoded, result.decode_seconds)},
      {"tokens_per_second", rate(tokens, result.decode_seconds)}};
  if (load_seconds) out["load_seconds"] = *load_seconds;
  return out;
}

std::string ids_text(const std::vector<std::int64_t>& ids) {
  std::string out;
  for (const std::int64_t id : ids) out += (out.empty() ? "" : " ") + std::to_string(id);
  return out;
}

void print_result(const Prompt& prompt, const llm::GenerateResult& result, const std::string& file,
                  bool json, bool text) {
  const bool good = prompt.error.empty();
  if (!good) {
    std::cerr << "anyaccel: error: " << (file == "-" ? "standard input" : file) << ", line "
              << prompt.line << ": " << prompt.error << '\n';
  }
  if (json) {
    nlohmann::ordered_json out = {{"line", prompt.line}};
    if (good) {
      out.update(result_json(result, std::nullopt));
    } else {
      out["error"] = prompt.error;
    }
    std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else if (good) {
    std::cout << "==> line " << prompt.line << " <==\n"
              << (text ? for_output(result.text) : ids_text(result.ids)) << std::endl;
  }
}

}  // namespace anyaccel::cli
