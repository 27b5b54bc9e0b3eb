#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/generate.h"
#include "anyaccel/llm/npy.h"
#include "anyaccel/llm/stop_signal.h"
#include "cli/commands/commands.h"

namespace anyaccel::cli {

namespace {

constexpr int kInterrupted = 130;

struct Arguments {
  std::string model = "anyaccel-model";
  std::string prompt, prompt_ids, dtype = "fp32", logits_out;
  llm::GenerateOptions options;
  bool greedy = false;
  bool json = false;
};

std::vector<std::int64_t> parse_ids(const std::string& text) {
  std::vector<std::int64_t> ids;
  std::istringstream in(text);
  std::string word;
  while (in >> word) {
    std::size_t used = 0;
    try {
      ids.push_back(std::stoll(word, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size()) {
      throw Error(
          ErrorCode::invalid_argument, "generate",
          {.what = "--prompt-ids are no whole numbers", .got = "'" + word + "'", .want = "for example \"1 2 3\""});
    }
  }
  return ids;
}

/// With --prompt-ids a tokenizer that we cannot read only means that ids are printed instead of text.
std::optional<llm::Tokenizer> load_tokenizer(const Arguments& arguments) {
  try {
    return llm::Tokenizer::load(arguments.model);
  } catch (const Error& error) {
    const bool tolerable = error.code() == ErrorCode::unsupported || error.code() == ErrorCode::not_found;
    if (arguments.prompt_ids.empty() || !tolerable) throw;
    return std::nullopt;
  }
}

void print_json(const llm::GenerateResult& result) {
  const double rate = result.decode_seconds > 0 ? static_cast<double>(result.ids.size()) / result.decode_seconds : 0.0;
  const nlohmann::ordered_json out = {{"accelerator", get_accelerator().name()},
                                      {"text", result.text},
                                      {"ids", result.ids},
                                      {"finish_reason", llm::to_string(result.finish)},
                                      {"prompt_tokens", result.prompt_tokens},
                                      {"new_tokens", result.ids.size()},
                                      {"prefill_seconds", result.prefill_seconds},
                                      {"decode_seconds", result.decode_seconds},
                                      {"tokens_per_second", rate}};
  std::cout << out.dump() << std::endl;
}

void run(Arguments& arguments, Context& context) {
  if (arguments.greedy) arguments.options.sampling.temperature = 0;
  const llm::StopSignal stop;
  const llm::Model model = llm::Model::load(arguments.model, parse_dtype(arguments.dtype));
  const auto tokenizer = load_tokenizer(arguments);
  std::vector<std::int64_t> prompt = parse_ids(arguments.prompt_ids);
  if (!arguments.prompt.empty()) prompt = tokenizer->encode(arguments.prompt);
  if (prompt.empty() && model.config().bos_token_id >= 0) prompt = {model.config().bos_token_id};
  if (!arguments.logits_out.empty()) {
    llm::write_npy(arguments.logits_out, model.logits(prompt));
    return;
  }
  const bool stream = !arguments.json && tokenizer.has_value();
  const auto on_text = [&](std::string_view piece) { std::cout << piece << std::flush; };
  const llm::GenerateResult result =
      llm::generate(model, tokenizer ? &*tokenizer : nullptr, prompt, arguments.options,
                    stream ? std::function<void(std::string_view)>(on_text) : nullptr, stop.flag());
  if (arguments.json) {
    print_json(result);
  } else if (!tokenizer) {
    for (std::size_t i = 0; i < result.ids.size(); ++i) std::cout << (i ? " " : "") << result.ids[i];
    std::cout << std::endl;
  } else {
    std::cout << std::endl;
  }
  if (result.finish == llm::FinishReason::context) {
    std::cerr << "anyaccel: the model's context of " << model.config().context_length() << " tokens is full\n";
  }
  if (result.finish == llm::FinishReason::interrupted) context.exit_code = kInterrupted;
}

}  // namespace

void add_generate(CLI::App& command, Context& context) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  llm::SamplingOptions& s = a.options.sampling;
  command.add_option("-m,--model", a.model, "Folder of a Llama checkpoint")->capture_default_str()->type_name("DIR");
  auto* prompt = command.add_option("-p,--prompt", a.prompt, "Text to continue");
  command.add_option("--prompt-ids", a.prompt_ids, "The same as token ids, for example \"1 2 3\"")->excludes(prompt);
  command.add_option("-n,--max-new-tokens", a.options.max_new_tokens, "How many tokens to generate")
      ->capture_default_str();
  command.add_option("--temperature", s.temperature, "Above 0; 0 always takes the likeliest token")
      ->capture_default_str();
  command.add_flag("--greedy", a.greedy, "The same as --temperature 0");
  command.add_option("--top-k", s.top_k, "Choose among the k likeliest (0: all)")->capture_default_str();
  command.add_option("--top-p", s.top_p, "Choose among the likeliest of this total probability")->capture_default_str();
  command.add_option("--min-p", s.min_p, "Leave out what is less likely than this share of the likeliest")
      ->capture_default_str();
  command.add_option("--repetition-penalty", s.repetition_penalty, "Above 1 makes repetition less likely")
      ->capture_default_str();
  command.add_option("--seed", s.seed, "The same seed gives the same text")->capture_default_str();
  command.add_option("--stop", a.options.stop, "End in front of this text (may be given several times)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--dtype", a.dtype, "What to compute in: fp32, bf16 or fp16")->capture_default_str();
  command.add_option("--logits-out", a.logits_out, "Write the prompt's logits to this .npy file and end")
      ->type_name("FILE");
  command.add_flag("--json", a.json, "Print one JSON object with text, ids and timings");
  command.callback([arguments, &context] { run(*arguments, context); });
}

}  // namespace anyaccel::cli
