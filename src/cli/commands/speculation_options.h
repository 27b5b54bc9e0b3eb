// Options of commands that may guess tokens ahead.
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
  std::string way;  ///< "prompt-lookup", maybe with ":N"
  std::string draft_model;
  std::optional<std::int64_t> draft_tokens;
};

/// Adds them to a command. `options` lives until the command has run.
void add_speculation_options(CLI::App& command, SpeculationOptions& options);

/// What was asked for; loads the draft model. Throws `invalid_argument` for one with another
/// tokenizer than `tokenizer` (null: than the model's number of tokens).
llm::Speculation ready_speculation(const SpeculationOptions& options, const llm::Model& model,
                                   const llm::Tokenizer* tokenizer);

}  // namespace anyaccel::cli
