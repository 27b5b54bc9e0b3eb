// Options that every command has which generates text.
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
  std::string dtype = "fp32";
  std::string quantize;  ///< empty, int8 or int4
  std::int64_t group_size = 0;
  bool no_model_cache = false;
  llm::GenerateOptions generate;
  std::optional<double> temperature, top_p, min_p,
      repetition_penalty;  ///< none: as the checkpoint says
  std::optional<std::int64_t> top_k;
  bool greedy = false;
};

/// Adds them to a command. `options` lives until the command has run.
void add_generation_options(CLI::App& command, GenerationOptions& options);
/// How the model is loaded. Throws what parse_dtype() throws.
llm::LoadOptions load_options(const GenerationOptions& options);
/// The checkpoint's way of sampling, and over it what was asked for. A cut that was asked for means
/// sampling.
llm::GenerateOptions ready_options(const GenerationOptions& options);

}  // namespace anyaccel::cli
