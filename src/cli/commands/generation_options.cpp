#include "cli/commands/generation_options.h"

#include <CLI/CLI.hpp>

#include "anyaccel/dtype.h"

namespace anyaccel::cli {

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  command.add_option("-m,--model", options.model, "Folder of a checkpoint or an adapter")
      ->capture_default_str()
      ->type_name("DIR");
  command
      .add_option("--adapter", options.adapter,
                  "Folder of a LoRA adapter in PEFT's format, which is merged into the weights "
                  "(default: none, or --model if that is the folder of an adapter)")
      ->type_name("DIR");
  command
      .add_option("-n,--max-new-tokens", options.generate.max_new_tokens,
                  "Maximum number of tokens to generate")
      ->capture_default_str();
  // The defaults of these options come from the folder's generation_config.json.
  command.add_option("--temperature", options.temperature,
                     "Sampling temperature; 0: greedy decoding (default: the checkpoint's, or 1)");
  command.add_flag("--greedy", options.greedy, "Same as --temperature 0");
  command.add_option(
      "--top-k", options.top_k,
      "Sample from the k most likely tokens; 0: all (default: the checkpoint's, or 0)");
  command.add_option("--top-p", options.top_p,
                     "Nucleus sampling: sample from the most likely tokens that together have this "
                     "probability (default: the checkpoint's, or 1)");
  command.add_option("--min-p", options.min_p,
                     "Exclude tokens less likely than this fraction of the highest probability "
                     "(default: the checkpoint's, or 0)");
  command.add_option("--repetition-penalty", options.repetition_penalty,
                     "Penalty for repeated tokens; 1: none (default: the checkpoint's, or 1)");
  command.add_option("--seed", options.generate.sampling.seed, "Random seed for sampling")
      ->capture_default_str();
  command.add_option("--stop", options.generate.stop, "Stop before this text; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--dtype", options.dtype, "Compute type: fp32, bf16 or fp16")
      ->capture_default_str();
  command.add_option("--quantize", options.quantize, "Quantize the weights: int8 or int4")
      ->check(CLI::IsMember({"int8", "int4"}))
      ->type_name("TYPE");
  command
      .add_option(
          "--group-size", options.group_size,
          "Number of inputs that share a quantization scale, a multiple of 32 (default: the "
          "largest of 128, 64 and 32 that divides the number of inputs)")
      ->type_name("N");
  command.add_flag("--no-model-cache", options.no_model_cache,
                   "Do not use the quantized-weight cache");
}

llm::LoadOptions load_options(const GenerationOptions& options) {
  const int bits = options.quantize.empty() ? 0 : options.quantize == "int8" ? 8 : 4;
  return {.dtype = parse_dtype(options.dtype),
          .bits = bits,
          .group_size = options.group_size,
          .cache = !options.no_model_cache};
}

llm::GenerateOptions ready_options(const GenerationOptions& options) {
  llm::GenerateOptions ready = options.generate;
  llm::SamplingOptions& sampling = ready.sampling;
  sampling = llm::sampling_defaults(options.model);
  sampling.seed = options.generate.sampling.seed;
  if ((options.top_k || options.top_p || options.min_p) && sampling.temperature == 0)
    sampling.temperature = 1;
  sampling.temperature = options.greedy ? 0 : options.temperature.value_or(sampling.temperature);
  sampling.top_k = options.top_k.value_or(sampling.top_k);
  sampling.top_p = options.top_p.value_or(sampling.top_p);
  sampling.min_p = options.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = options.repetition_penalty.value_or(sampling.repetition_penalty);
  return ready;
}

}  // namespace anyaccel::cli
