// Options shared by all commands that generate text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "anyaccel/llm/generate.h"

namespace CLI {
class App;
}

namespace anyaccel::cli {

struct GenerationOptions {
  std::string model = "anyaccel-model";
  std::string adapter;  ///< folder of a LoRA adapter; empty for none
  std::string dtype = "fp32";
  std::string quantize;  ///< int8 or int4; empty for no quantization
  std::int64_t group_size = 0;
  bool no_model_cache = false;
  llm::GenerateOptions generate;
  std::optional<double> temperature, top_p, min_p,
      repetition_penalty;  ///< empty: the checkpoint's value
  std::optional<std::int64_t> top_k;
  bool greedy = false;
};

/// Adds the options to a command. `options` must outlive the command's callback.
void add_generation_options(CLI::App& command, GenerationOptions& options);
/// Returns the options for loading the model. Throws the same errors as parse_dtype().
llm::LoadOptions load_options(const GenerationOptions& options);
/// Returns the checkpoint's sampling options, overridden by those on the command line. --top-k,
/// --top-p and --min-p imply sampling.
llm::GenerateOptions ready_options(const GenerationOptions& options);

}  // namespace anyaccel::cli
