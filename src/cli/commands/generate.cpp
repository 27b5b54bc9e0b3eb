#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "anyaccel/llm/chat.h"
#include "anyaccel/llm/generate.h"
#include "anyaccel/llm/npy.h"
#include "anyaccel/llm/stop_signal.h"
#include "cli/commands/adapter.h"
#include "cli/commands/commands.h"
#include "cli/commands/generate/parallel.h"
#include "cli/commands/generate/prompts.h"
#include "cli/commands/generate/results.h"
#include "cli/commands/generation_options.h"
#include "cli/commands/speculation_options.h"

namespace anyaccel::cli {

namespace {

struct Arguments {
  GenerationOptions options;
  ParallelOptions parallel;
  SpeculationOptions speculation;
  std::string prompt, prompt_ids, prompts, logits_out;
  bool ids_given = false;
  std::int64_t batch_size = 8;
  bool raw = false, json = false;
};

/// Returns nullopt if the tokenizer is missing or unsupported and the prompts may be token ids. In
/// that case, ids are printed instead of text.
std::optional<llm::Tokenizer> load_tokenizer(const Arguments& arguments) {
  try {
    return llm::Tokenizer::load(arguments.options.model);
  } catch (const Error& error) {
    const bool tolerable =
        error.code() == ErrorCode::unsupported || error.code() == ErrorCode::not_found;
    if ((!arguments.ids_given && arguments.prompts.empty()) || !tolerable) throw;
    return std::nullopt;
  }
}

/// State shared by all prompts of a run.
struct Run {
  const Arguments& arguments;
  const llm::Model& model;
  const llm::Tokenizer* tokenizer;
  const std::optional<llm::ChatTemplate> chat;
  llm::GenerateOptions options;
  double load_seconds;

  /// Encodes the text. If the model's chat template is used, the text becomes a user message.
  std::vector<std::int64_t> encode(const std::string& text) const {
    if (!chat) return tokenizer->encode(text);
    return tokenizer->encode(chat->apply({{.role = "user", .content = text}}),
                             /*add_special_tokens=*/false);
  }
};

void tell_of_context(const Run& run, const llm::GenerateResult& result) {
  if (result.finish != llm::FinishReason::context) return;
  std::cerr << "anyaccel: the model's " << run.model.config().context_length()
            << "-token context is full\n";
}

void run_one(const Run& run, const std::vector<std::int64_t>& prompt, Context& context) {
  const bool first = run.model.rank() == 0;
  const bool stream = first && !run.arguments.json && run.tokenizer;
  const llm::StopSignal stop(llm::StopSignal::Watch::all, llm::StopSignal::kShort);
  const auto on_text = [&](std::string_view piece) {
    std::cout << for_output(piece) << std::flush;
  };
  const llm::GenerateResult result =
      llm::generate(run.model, run.tokenizer, prompt, run.options,
                    stream ? std::function<void(std::string_view)>(on_text) : nullptr, stop.flag());
  run.model.barrier();
  if (result.finish == llm::FinishReason::interrupted) context.exit_code = kInterrupted;
  if (!first) return;
  if (run.arguments.json) {
    std::cout << result_json(result, run.load_seconds).dump() << std::endl;
  } else {
    std::cout << (run.tokenizer ? "" : ids_text(result.ids)) << std::endl;
  }
  tell_of_context(run, result);
}

void run_many(const Run& run, Context& context) {
  if (run.arguments.parallel.self_check) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "--self-check requires a single prompt",
                 .got = "--prompts",
                 .want = "--prompt or --prompt-ids"});
  }
  std::vector<Prompt> prompts = read_prompts(run.arguments.prompts, run.model.ranks());
  std::vector<std::vector<std::int64_t>> ids;
  for (Prompt& prompt : prompts) {
    try {
      if (prompt.error.empty() && !prompt.ids) prompt.ids = run.encode(prompt.text);
    } catch (const Error& error) {
      prompt.error = error.what();
    }
    ids.push_back(prompt.ids.value_or(std::vector<std::int64_t>()));
  }
  const llm::StopSignal stop(llm::StopSignal::Watch::all, llm::StopSignal::kShort);
  const bool first = run.model.rank() == 0;
  bool failed = false;
  std::size_t told = 0;
  const auto on_result = [&](std::size_t i, const llm::BatchResult& one) {
    ++told;
    Prompt& prompt = prompts[i];
    if (prompt.error.empty() && one.error) prompt.error = one.error->what();
    failed = failed || !prompt.error.empty();
    if (one.result.finish == llm::FinishReason::interrupted) context.exit_code = kInterrupted;
    if (first)
      print_result(prompt, one.result, run.arguments.prompts, run.arguments.json,
                   run.tokenizer != nullptr);
  };
  llm::generate_batch(run.model, run.tokenizer, ids, run.options, run.arguments.batch_size,
                      on_result, stop.flag());
  run.model.barrier();
  if (told < prompts.size()) context.exit_code = kInterrupted;
  if (failed && context.exit_code == 0) context.exit_code = 1;
}

/// Throws `invalid_argument` for options that cannot be combined with an adapter.
void check_adapter(const Arguments& arguments) {
  const ParallelOptions& parallel = arguments.parallel;
  if (arguments.options.adapter.empty() ||
      (parallel.ranks.empty() && !parallel.plan && !parallel.self_check))
    return;
  throw Error(ErrorCode::invalid_argument, "generate",
              {.what = "--tensor-parallel, --plan and --self-check do not work with an adapter",
               .hint = "merge the adapter into a copy of the model first (merge_adapter() and "
                       "save_pretrained() in C++, PEFT's merge_and_unload() in Python)"});
}

void run(Arguments& arguments, Context& context) {
  find_base_model(arguments.options);
  check_adapter(arguments);
  const std::string& folder = arguments.options.model;
  if (arguments.parallel.plan) {
    return print_plan(folder, load_options(arguments.options), arguments.parallel, arguments.json);
  }
  std::vector<std::int64_t> prompt;
  if (arguments.ids_given) prompt = parse_ids(arguments.prompt_ids);
  const auto begin = std::chrono::steady_clock::now();
  const llm::Model model =
      arguments.options.adapter.empty()
          ? load_model(folder, load_options(arguments.options), arguments.parallel)
          : load_with_adapter(arguments.options);
  const std::chrono::duration<double> loaded = std::chrono::steady_clock::now() - begin;
  const auto tokenizer = load_tokenizer(arguments);
  const bool template_wanted =
      !arguments.raw && (!arguments.prompt.empty() || !arguments.prompts.empty());
  Run run{.arguments = arguments,
          .model = model,
          .tokenizer = tokenizer ? &*tokenizer : nullptr,
          .chat = template_wanted ? llm::ChatTemplate::load(folder) : std::nullopt,
          .options = ready_options(arguments.options),
          .load_seconds = loaded.count()};
  run.options.speculation = ready_speculation(arguments.speculation, model, run.tokenizer);
  if (!arguments.prompts.empty()) return run_many(run, context);
  if (!arguments.prompt.empty()) prompt = run.encode(arguments.prompt);
  if (prompt.empty() && model.config().bos_token_id >= 0) prompt = {model.config().bos_token_id};
  if (arguments.parallel.self_check)
    self_check(folder, load_options(arguments.options), arguments.parallel, model, prompt);
  if (arguments.logits_out.empty()) return run_one(run, prompt, context);
  const at::Tensor logits = model.logits(prompt);
  if (model.rank() == 0) llm::write_npy(arguments.logits_out, logits);
  model.barrier();
}

}  // namespace

void add_generate(CLI::App& command, Context& context) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  add_generation_options(command, a.options);
  add_speculation_options(command, a.speculation);
  auto* prompt = command.add_option("-p,--prompt", a.prompt, "Text to continue");
  auto* ids = command.add_option("--prompt-ids", a.prompt_ids,
                                 "Prompt as token ids, for example \"1 2 3\"");
  ids->excludes(prompt);
  auto* prompts = command.add_option(
      "--prompts", a.prompts,
      "Prompt file (-: standard input); each line is a plain-text prompt, or a JSON object with "
      "\"prompt\" or \"prompt_ids\"");
  prompts->type_name("FILE")->excludes(prompt)->excludes(ids);
  command.add_option("--batch-size", a.batch_size, "Number of prompts per batch, with --prompts")
      ->capture_default_str()
      ->needs(prompts);
  command.add_flag("--raw", a.raw,
                   "Continue the prompt verbatim, without the model's chat template");
  command
      .add_option("--logits-out", a.logits_out,
                  "Write the prompt's logits to this .npy file and exit")
      ->type_name("FILE")
      ->excludes(prompts);
  add_parallel_options(command, a.parallel);
  command.add_flag("--json", a.json,
                   "Print one JSON object per prompt, with text, ids and timings");
  command.callback([arguments, &context, ids] {
    arguments->ids_given = ids->count() > 0;  // the value may be empty
    run(*arguments, context);
  });
}

}  // namespace anyaccel::cli
