#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/stop_signal.h"
#include "anyaccel/llm/trainer.h"
#include "base/untrusted_text.h"
#include "cli/commands/commands.h"
#include "cli/commands/train/duration.h"
#include "cli/commands/train/fine_tune.h"
#include "cli/commands/train/summary.h"

namespace anyaccel::cli {

namespace {

using llm::TrainInfo;
using llm::TrainOptions;
using llm::TrainResult;
using llm::TrainStep;
using nlohmann::ordered_json;

void print_info(const TrainInfo& info) {
  const TrainOptions& o = info.options;
  std::fprintf(stderr, "accelerator  %s (%s): %s\n", info.accelerator.c_str(), info.device.c_str(),
               info.reason.c_str());
  std::fprintf(stderr, "data         %s: %lld files, %.1f MB to train on, %.1f MB held out\n",
               info.data.c_str(), static_cast<long long>(info.files),
               static_cast<double>(info.train_bytes) / 1e6,
               static_cast<double>(info.held_out_bytes) / 1e6);
  std::fprintf(stderr, "vocabulary   %lld tokens, %.2f bytes per token\n",
               static_cast<long long>(o.model.vocab_size),
               static_cast<double>(info.train_bytes) / static_cast<double>(info.train_tokens));
  std::fprintf(
      stderr, "model        Llama, %.2f million parameters, context %lld, batch %lld, %s%s\n",
      static_cast<double>(info.parameters) / 1e6, static_cast<long long>(o.model.max_positions),
      static_cast<long long>(o.batch_size), dtype_name(o.dtype), o.graph ? ", captured graph" : "");
  if (info.world_size > 1)
    std::fprintf(stderr, "ranks        %d, sharing each batch\n", info.world_size);
  if (info.first_step > 0)
    std::fprintf(stderr, "resumed      after step %lld\n", static_cast<long long>(info.first_step));
}

std::string progress_text(const TrainStep& s, double loss) {
  char text[160];
  std::snprintf(text, sizeof text, "step %lld  loss %.3f  %.0f tokens/s  memory %.1f MB  left %s",
                static_cast<long long>(s.step), loss, s.tokens_per_second,
                static_cast<double>(s.memory_allocated) / 1e6, duration(s.seconds_left).c_str());
  return text;
}

/// Shows progress: on a terminal, one line that is rewritten; elsewhere, one line every five
/// seconds. The loss is an average over about the last 100 steps, because the loss of a single
/// small batch is noisy.
class Progress {
 public:
  void show(const TrainStep& step) {
    ++steps_;
    loss_ += (step.loss - loss_) / static_cast<double>(std::min<std::int64_t>(steps_, 100));
    if (terminal_) {
      if (step.seconds - last_ < 0.1 && last_ > 0) return;
      std::fprintf(stderr, "\r%s\x1b[K", progress_text(step, loss_).c_str());
    } else {
      if (step.seconds - last_ < 5.0 && last_ > 0) return;
      std::fprintf(stderr, "%s\n", progress_text(step, loss_).c_str());
    }
    last_ = step.seconds;
  }
  void finish(const TrainStep& step) {
    if (terminal_ && step.step > 0)
      std::fprintf(stderr, "\r%s\x1b[K\n", progress_text(step, loss_).c_str());
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  double last_ = 0;
  double loss_ = 0;
  std::int64_t steps_ = 0;
};

ordered_json optional_number(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

void print_json_step(const TrainStep& s) {
  const ordered_json line = {{"step", s.step},
                             {"loss", s.loss},
                             {"lr", s.lr},
                             {"gradient_norm", s.gradient_norm},
                             {"tokens_per_second", s.tokens_per_second},
                             {"memory_allocated", s.memory_allocated},
                             {"seconds", s.seconds},
                             {"skipped", s.skipped}};
  std::cout << line.dump() << std::endl;
}

void print_json_result(const TrainResult& r, const TrainInfo& info) {
  const ordered_json line = {
      {"accelerator", r.accelerator},
      {"losses", r.losses},
      {"final_loss", r.losses.empty() ? ordered_json() : ordered_json(r.final_loss)},
      {"tokens_per_second", r.tokens_per_second},
      {"steps", r.steps},
      {"seconds", r.seconds},
      {"held_out_loss", optional_number(r.held_out_loss)},
      {"unigram_entropy", optional_number(r.unigram_entropy)},
      {"ngram3_loss", optional_number(r.ngram_loss)},
      {"interrupted", r.interrupted},
      {"dtype", dtype_name(info.options.dtype)},
      {"parameters", info.parameters},
      {"vocab_size", info.options.model.vocab_size},
      {"world_size", info.world_size},
      {"same_weights", r.same_weights},
      {"out", info.options.out.string()}};
  // Replace invalid UTF-8, which a path may contain.
  std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
}

void print_result(const TrainResult& r, const TrainInfo& info) {
  const std::string out = info.options.out.string();
  print_training_summary(r);
  if (r.held_out_loss && r.unigram_entropy && r.ngram_loss) {
    std::printf(
        "held-out loss %.3f nats per byte; unigram entropy %.3f (ratio %.2f); order-3 n-gram "
        "%.3f\n",
        *r.held_out_loss, *r.unigram_entropy, *r.held_out_loss / *r.unigram_entropy, *r.ngram_loss);
  }
  std::printf("checkpoint in %s\n", out.c_str());
  if (r.interrupted) print_resume_command(out);
}

/// Options that determine a training run. --resume takes their values from the saved run. If such
/// an option is also on the command line, its value must match the saved one.
class RunOptions {
 public:
  RunOptions(CLI::App& command, TrainOptions& options) : command_(command), options_(options) {}

  /// `member` returns the member of TrainOptions that stores the option.
  template <typename Member>
  void add(const char* name, Member member, const char* help, const char* group) {
    using Value = std::remove_reference_t<decltype(member(options_))>;
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<Value, bool>)
      option = command_.add_flag(name, member(options_), help);
    else
      option = command_.add_option(name, member(options_), help)->capture_default_str();
    option->group(group);
    require_same(option, [member](TrainOptions options) { return ordered_json(member(options)); });
  }

  /// Adds an option that is declared elsewhere. `value` reads its value from TrainOptions.
  void require_same(CLI::Option* option, std::function<ordered_json(const TrainOptions&)> value) {
    entries_.push_back({option, std::move(value)});
  }

  /// Throws `invalid_argument` for the first given option whose value differs from the resumed
  /// run's.
  void check(const TrainOptions& given, const TrainOptions& resumed) const {
    for (const auto& [option, value] : entries_) {
      if (option->count() == 0 || value(given) == value(resumed)) continue;
      throw anyaccel::Error(ErrorCode::invalid_argument, "resume",
                            {.what = option->get_name() + " differs from the saved run",
                             .got = value(given).dump(),
                             .want = value(resumed).dump(),
                             .hint = "omit the option, or start over without --resume"});
    }
  }

 private:
  struct Entry {
    CLI::Option* option;
    std::function<ordered_json(const TrainOptions&)> value;
  };
  CLI::App& command_;
  TrainOptions& options_;
  std::vector<Entry> entries_;
};

void add_model_options(RunOptions& run) {
  const char* group = "Model (kept by --resume)";
  run.add(
      "--hidden", [](auto& o) -> auto& { return o.model.hidden_size; }, "Hidden size of the model",
      group);
  run.add(
      "--layers", [](auto& o) -> auto& { return o.model.num_layers; }, "Number of decoder layers",
      group);
  run.add(
      "--heads", [](auto& o) -> auto& { return o.model.num_heads; }, "Number of attention heads",
      group);
  run.add(
      "--kv-heads", [](auto& o) -> auto& { return o.model.num_kv_heads; },
      "Number of key-value heads", group);
  run.add(
      "--head-dim", [](auto& o) -> auto& { return o.model.head_dim; },
      "Dimension of each attention head", group);
  run.add(
      "--intermediate", [](auto& o) -> auto& { return o.model.intermediate_size; },
      "Width of the feed-forward network", group);
  run.add(
      "--context", [](auto& o) -> auto& { return o.model.max_positions; },
      "Context length in tokens", group);
  run.add(
      "--vocab-size", [](auto& o) -> auto& { return o.vocab_size; },
      "Maximum vocabulary size; small data sets yield fewer tokens (257: bytes only, no merges)",
      group);
  run.add(
      "--rope-theta", [](auto& o) -> auto& { return o.model.rope.theta; },
      "Base of the rotary position embedding", group);
  run.add(
      "--initializer-range", [](auto& o) -> auto& { return o.model.initializer_range; },
      "Standard deviation of the initial weights", group);
  run.add(
      "--tie-embeddings", [](auto& o) -> auto& { return o.model.tie_word_embeddings; },
      "Share the embedding matrix with the output head", group);
}

c10::ScalarType training_dtype(const std::string& text) {
  const std::vector<std::string> good = {"fp32",     "float32", "float",   "bf16",
                                         "bfloat16", "fp16",    "float16", "half"};
  if (std::find(good.begin(), good.end(), text) == good.end()) {
    throw Error(ErrorCode::invalid_argument, "train",
                {.what = "unsupported --dtype for training",
                 .got = quoted_text(text),
                 .want = "fp32, bf16 or fp16"});
  }
  return parse_dtype(text);
}

void add_run_options(RunOptions& run) {
  const char* group = "Optimization (kept by --resume)";
  run.add(
      "--batch-size", [](auto& o) -> auto& { return o.batch_size; },
      "Sequences per step, over all ranks (0: one per rank)", group);
  run.add(
      "--lr", [](auto& o) -> auto& { return o.lr; }, "Peak learning rate", group);
  run.add(
      "--warmup", [](auto& o) -> auto& { return o.warmup; },
      "Fraction of the run used for learning-rate warmup", group);
  run.add(
      "--beta2", [](auto& o) -> auto& { return o.beta2; },
      "AdamW beta2, the decay rate of the second-moment estimate", group);
  run.add(
      "--weight-decay", [](auto& o) -> auto& { return o.weight_decay; }, "AdamW weight decay",
      group);
  run.add(
      "--clip", [](auto& o) -> auto& { return o.clip; },
      "Maximum gradient norm; larger gradients are clipped", group);
  run.add(
      "--dropout", [](auto& o) -> auto& { return o.dropout; },
      "Dropout probability after the attention block and the feed-forward network of each layer",
      group);
}

}  // namespace

void add_train(CLI::App& command, Context& context) {
  struct Arguments {
    TrainOptions options;
    std::string dtype = "fp32";
    bool json = false;
    std::optional<RunOptions> kept;
    std::optional<FineTuneCommand> fine_tune;
  };
  auto arguments = std::make_shared<Arguments>();
  TrainOptions& o = arguments->options;
  RunOptions& kept = arguments->kept.emplace(command, o);
  command
      .add_option(
          "--data", o.data,
          "Text files or folders to train on; with --model also JSON Lines files (default without "
          "--model: the C++ headers of the LibTorch in use)")
      ->type_name("PATH");
  command.add_option("-o,--out", o.out, "Folder for the checkpoint")
      ->capture_default_str()
      ->type_name("DIR");
  command.add_option("--steps", o.steps, "Number of training steps");
  command.add_option("--minutes", o.minutes,
                     "Training time in minutes; with --steps, training ends at the first limit "
                     "reached (default: one minute, extended to reach --min-steps)");
  command
      .add_option("--min-steps", o.min_steps,
                  "Minimum number of steps if neither --steps nor --minutes is given, within a "
                  "limit of three minutes")
      ->capture_default_str();
  kept.add(
      "--seed", [](auto& options) -> auto& { return options.seed; },
      "Random seed for initial weights, data order and dropout", "OPTIONS");
  kept.require_same(
      command
          .add_option("--dtype", arguments->dtype,
                      "Compute type: fp32, or bf16 or fp16 with autocast")
          ->capture_default_str(),
      [](const TrainOptions& options) { return ordered_json(dtype_name(options.dtype)); });
  command.add_flag("--graph", o.graph, "Capture a whole training step as a graph and replay it");
  command.add_flag(
      "--random-start{false}", o.bigram_start,
      "Initialize all weights at random instead of starting as a bigram model of the data");
  command.add_flag("--resume", o.resume, "Continue the run in --out with its saved settings");
  command
      .add_option("--save-every", o.save_every, "Steps between checkpoints (0: only at the end)")
      ->capture_default_str();
  kept.add(
      "--held-out-tokens", [](auto& options) -> auto& { return options.held_out_tokens; },
      "Number of held-out bytes to evaluate on", "OPTIONS");
  command.add_flag("--json", arguments->json,
                   "Print one JSON object per step on standard output, then one for the result");
  command
      .add_option("--bucket-cap-mb", o.bucket_cap_mb,
                  "With several ranks: maximum size of a gradient bucket in MiB")
      ->capture_default_str();
  add_model_options(kept);
  add_run_options(kept);
  FineTuneCommand& fine_tune = arguments->fine_tune.emplace(command, o);
  command.callback([arguments, &fine_tune, &context] {
    if (fine_tune.selected()) {
      (void)training_dtype(arguments->dtype);
      fine_tune.run(arguments->dtype, arguments->json, context);
      return;
    }
    arguments->options.dtype = training_dtype(arguments->dtype);
    llm::Trainer trainer(arguments->options);
    // From here on, a signal finishes the current step and saves a checkpoint, which may take a
    // long time. Before this point, there is nothing to save.
    const llm::StopSignal stop;
    if (arguments->options.resume)
      arguments->kept->check(arguments->options, trainer.info().options);
    const bool speaks = trainer.info().rank == 0;
    if (speaks && !arguments->json) print_info(trainer.info());
    Progress progress;
    TrainStep last;
    const auto on_step = [&](const TrainStep& step) {
      last = step;
      if (!speaks) return;
      if (arguments->json)
        print_json_step(step);
      else
        progress.show(step);
    };
    const TrainResult result = trainer.run(on_step, stop.flag());
    if (!speaks) {
      // Only rank 0 prints the result.
    } else if (arguments->json) {
      print_json_result(result, trainer.info());
    } else {
      progress.finish(last);
      print_result(result, trainer.info());
    }
    if (result.interrupted) context.exit_code = kInterrupted;
  });
}

}  // namespace anyaccel::cli
