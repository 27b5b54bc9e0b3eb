// Options for speculative decoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "anyaccel/llm/generate.h"

namespace CLI {
class App;
}

namespace anyaccel::cli {

struct SpeculationOptions {
  std::string way;  ///< "prompt-lookup" or "prompt-lookup:N"
  std::string draft_model;
  std::optional<std::int64_t> draft_tokens;
};

/// Adds the options to a command. `options` must outlive the command's callback.
void add_speculation_options(CLI::App& command, SpeculationOptions& options);

/// Converts the options, and loads the draft model if there is one. Throws `invalid_argument` if
/// the draft model's tokenizer differs from `tokenizer`. If `tokenizer` is null, compares the
/// vocabulary sizes of the two models instead.
llm::Speculation ready_speculation(const SpeculationOptions& options, const llm::Model& model,
                                   const llm::Tokenizer* tokenizer);

}  // namespace anyaccel::cli
