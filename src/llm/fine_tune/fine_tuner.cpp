#include "anyaccel/llm/fine_tuner.h"

#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "base/log.h"
#include "llm/data/examples.h"
#include "llm/fine_tune/batch.h"
#include "llm/fine_tune/flops.h"
#include "llm/fine_tune/options.h"
#include "llm/fine_tune/run_files.h"
#include "llm/fine_tune/start.h"
#include "llm/fine_tune/updater.h"
#include "llm/support/clock.h"
#include "llm/train/ranks.h"
#include "llm/train/schedule.h"
#include "llm/train/state.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

/// Returns whether a folder contains a fine-tuning run. Other files in a folder are not ours to
/// remove.
bool contains_run(const fs::path& folder) {
  try {
    return FineTuner::can_resume(folder);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

struct ANYACCEL_LOCAL FineTuner::Impl {
  explicit Impl(FineTuneOptions given)
      : options(starting_options(std::move(given), progress, ranks)),
        tokenizer_folder(options.resume && !fs::exists(options.model / "tokenizer.json")
                             ? options.out
                             : options.model),
        model_config(
            ModelConfig::read(options.resume && !options.adapter ? options.out : options.model)),
        store(model_config.vocab_size),
        validation_store(model_config.vocab_size) {
    complete_options(options, model_config.context_length(), ranks.size());
    check_dtype(options.dtype);
    ranks.together([&] {
      if (!ranks.first()) return;
      check_folder(options.out);  // fail before training, not after it
      replaces_run = !options.resume && contains_run(options.out);
    });
    read_data();
    model = starting_model(options);
    if (options.adapter) check_base_weights(model, options, progress);
    trained.emplace(model);
    updater = make_updater(*trained, options, ranks);
    if (options.resume) load_state(options.out, options, progress, *trained, *updater);
    files.emplace(options.out, tokenizer_folder);
    flops = training_flops(model_config, options.adapter ? trained_count() : 0);
    fill_info();
  }

  std::int64_t trained_count() const {
    std::int64_t sum = 0;
    for (const at::Tensor& tensor : trained->parameters()) sum += tensor.numel();
    return sum;
  }

  void read_data() {
    const std::int64_t eos =
        model_config.eos_token_ids.empty() ? -1 : model_config.eos_token_ids[0];
    const ExampleEncoder encoder(tokenizer_folder, model_config.vocab_size, eos);
    counts = read_examples(options.data, encoder, options.skip_bad_lines, store);
    if (!options.validation.empty()) {
      const DataCounts more =
          read_examples(options.validation, encoder, options.skip_bad_lines, validation_store);
      counts.bad_lines += more.bad_lines;
      counts.bad_reasons.insert(counts.bad_reasons.end(), more.bad_reasons.begin(),
                                more.bad_reasons.end());
    }
    const double fraction = options.validation_fraction;
    rows.emplace(store, options.context, options.packing, options.seed, HoldOut{fraction, false});
    const bool apart = !options.validation.empty();
    validation_rows.emplace(apart ? validation_store : store, options.context, options.packing,
                            options.seed, HoldOut{fraction, !apart});
    if (!apart && fraction == 0) validation_rows.reset();
    if (rows->size() == 0) {
      throw Error(ErrorCode::invalid_argument, "train",
                  {.what = "the training data have no tokens to train on",
                   .got = std::to_string(store.size()) + " examples with " +
                          std::to_string(store.tokens()) + " tokens",
                   .hint = "pass more --data"});
    }
    std::string source;
    for (const fs::path& path : options.data)
      source += (source.empty() ? "" : ", ") + path.string();
    ranks.check_same_data(store.fingerprint(), source);
    if (options.resume && progress.fingerprint != store.fingerprint()) {
      throw Error(ErrorCode::invalid_argument, "resume",
                  {.what = "the data differ from those of the saved run: " + source,
                   .hint = "pass the same --data, or start over without --resume"});
    }
    progress.fingerprint = store.fingerprint();
    order.emplace(rows->size(), options.seed);
  }

  std::int64_t rows_per_step() const { return options.batch_size * options.accumulation; }

  /// Number of rows in the whole run if its length is given in epochs.
  std::int64_t all_rows() const {
    const double epochs = options.epochs.value_or(1);
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(rows->size()))));
  }

  std::int64_t all_steps() const {
    if (options.steps) return *options.steps;
    return (all_rows() + rows_per_step() - 1) / rows_per_step();
  }

  void fill_info() {
    info.accelerator = get_accelerator().name();
    info.reason = detection().reason;
    info.device = get_accelerator().device_properties().name;
    info.model_type = model_config.model_type;
    info.parameters = model_config.parameter_count();
    info.trained_parameters = trained_count();
    info.files = counts.files;
    info.texts = counts.texts;
    info.conversations = counts.conversations;
    info.tokens = store.tokens();
    info.rows = static_cast<std::int64_t>(rows->size());
    info.learned_tokens = store.learned_tokens();
    info.truncated = rows->truncated();
    info.left_out = rows->left_out();
    info.bad_lines = counts.bad_lines;
    info.bad_reasons = counts.bad_reasons;
    info.validation_rows = validation_rows ? static_cast<std::int64_t>(validation_rows->size()) : 0;
    info.steps = all_steps();
    info.first_step = progress.step;
    info.rank = ranks.rank();
    info.world_size = ranks.size();
    info.peak_flops = measured_peak_flops(options.dtype);
    info.options = options;
  }

  /// The rows of the next step, of all ranks.
  std::vector<std::size_t> next_rows() {
    const auto position = static_cast<std::uint64_t>(progress.step * rows_per_step());
    std::int64_t count = rows_per_step();
    if (!options.steps)
      count = std::clamp<std::int64_t>(all_rows() - progress.step * rows_per_step(), ranks.size(),
                                       count);
    std::vector<std::size_t> out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(order->at(position + static_cast<std::uint64_t>(i)));
    return out;
  }

  struct Outcome {
    double loss = 0;  ///< sum over this rank's rows, divided by the number of tokens of all ranks
    double norm = 0, flops = 0;
    std::int64_t tokens = 0;  ///< of all ranks
  };

  Outcome step(double lr) {
    const std::vector<std::size_t> all = next_rows();
    const std::int64_t learned = std::max<std::int64_t>(1, learned_tokens(store, *rows, all));
    Outcome out;
    for (const std::size_t row : all) {
      for (const RowPart& part : rows->row(row)) {
        out.tokens += part.length;
        out.flops += flops.sequence(part.length);
      }
    }
    const BatchShare share =
        share_of_batch(static_cast<std::int64_t>(all.size()), ranks.rank(), ranks.size());
    const std::span<const std::size_t> own(all.data() + share.begin,
                                           static_cast<std::size_t>(share.count));
    const auto at_once =
        static_cast<std::size_t>((options.batch_size + ranks.size() - 1) / ranks.size());
    get_accelerator().manual_seed(step_seed(options.seed, progress.step, ranks.rank()));
    // Rank 0 has the largest share of the batch, and therefore the most passes.
    const auto most = static_cast<std::size_t>(
        share_of_batch(static_cast<std::int64_t>(all.size()), 0, ranks.size()).count);
    at::Tensor sum;
    for (std::size_t begin = 0; begin < most; begin += at_once) {
      at::Tensor loss;
      if (begin < own.size()) {
        CausalLMInput batch =
            make_batch(store, *rows, own.subspan(begin, std::min(at_once, own.size() - begin)));
        batch.logits = false;
        // The updater divides the sum over the ranks by their number.
        batch.num_items_in_batch = static_cast<double>(learned) / ranks.size();
        loss = model->forward(batch).loss;
        const at::Tensor part = loss.detach();
        sum = sum.defined() ? sum.add(part) : part;
      }
      updater->backward(loss, /*last=*/begin + at_once >= most);
    }
    out.norm = updater->step(lr, options.clip);
    out.loss = sum.item<double>();
    return out;
  }

  /// Mean loss of the validation rows. Every rank computes some of them.
  double validation_loss() {
    const c10::AutoGradMode no_gradient(false);
    const ExampleStore& data = options.validation.empty() ? store : validation_store;
    model->eval();
    const auto size = static_cast<std::size_t>(ranks.size());
    const auto at_once =
        std::max<std::size_t>(1, static_cast<std::size_t>(options.batch_size) / size);
    double sum = 0, count = 0;
    std::vector<std::size_t> batch;
    const auto run = [&] {
      if (batch.empty()) return;
      const std::int64_t learned = learned_tokens(data, *validation_rows, batch);
      CausalLMInput input = make_batch(data, *validation_rows, batch);
      input.logits = false;
      input.num_items_in_batch = static_cast<double>(learned);
      sum += model->forward(input).loss.item<double>() * static_cast<double>(learned);
      count += static_cast<double>(learned);
      batch.clear();
    };
    for (auto row = static_cast<std::size_t>(ranks.rank()); row < validation_rows->size();
         row += size) {
      batch.push_back(row);
      if (batch.size() == at_once) run();
    }
    run();
    model->train();
    const at::Tensor both = at::tensor({sum, count}, c10::kDouble);
    if (ranks.size() > 1) ranks.group()->all_reduce(both);
    return both[0].item<double>() / std::max(1.0, both[1].item<double>());
  }

  /// Evaluates and saves the weights if they are the best so far.
  void evaluate(FineTuneResult& result, const FineTuneObserver& observer) {
    if (!validation_rows || validation_rows->size() == 0) return;
    const auto begin = Clock::now();
    FineTuneEvaluation news{.step = progress.step, .loss = validation_loss()};
    news.best = news.loss < progress.best_loss;
    if (news.best) {
      ranks.together([&] {
        if (ranks.first()) files->save_best(model, options);
      });
      progress.best_loss = news.loss;
      progress.best_step = progress.step;
      saved = -1;  // the saved progress does not name this step yet
    }
    news.seconds = seconds_since(begin);
    result.validation_loss = news.loss;
    evaluated = progress.step;
    if (observer.on_evaluation) observer.on_evaluation(news);
  }

  void save() {
    if (!ranks.all_have(updater->replicated()) && same_weights) {
      same_weights = false;
      if (ranks.first())
        log(LogLevel::warning, "train: the weights differ between ranks after step " +
                                   std::to_string(progress.step) + "; saving those of rank 0");
    }
    saved = progress.step;
    files->save(model, *trained, *updater, options, progress, ranks);
    if (!ranks.first()) return;
    if (replaces_run) files->remove_stale(options, std::isfinite(progress.best_loss));
    replaces_run = false;
  }

  FineTuneResult run(const FineTuneObserver& observer, const StopCondition& stop);

  Ranks ranks;
  FineTuneProgress progress;
  FineTuneOptions options;
  fs::path tokenizer_folder;
  ModelConfig model_config;
  ExampleStore store, validation_store;
  DataCounts counts;
  std::optional<Rows> rows, validation_rows;
  std::optional<RowOrder> order;
  CausalLM model{nullptr};
  std::optional<TrainedParameters> trained;
  std::unique_ptr<Updater> updater;
  std::optional<RunFiles> files;
  TrainingFlops flops;
  std::int64_t saved = -1, evaluated = -1;  ///< last step that was saved, and evaluated
  bool same_weights = true;
  bool replaces_run = false;  ///< the folder contains files of an earlier run that may be stale
  FineTuneInfo info;
};

FineTuner::FineTuner(FineTuneOptions options) {
  naming_rank([&] { impl_ = std::make_unique<Impl>(std::move(options)); });
}

FineTuner::~FineTuner() = default;

const FineTuneInfo& FineTuner::info() const { return impl_->info; }

FineTuneResult FineTuner::run(const FineTuneObserver& observer, StopCondition stop) {
  FineTuneResult result;
  naming_rank([&] { result = impl_->run(observer, stop); });
  return result;
}

FineTuneResult FineTuner::Impl::run(const FineTuneObserver& observer, const StopCondition& stop) {
  FineTuneResult result;
  const auto begin = Clock::now();
  const double before = progress.seconds;
  const std::int64_t steps = all_steps();
  const double limit = options.minutes ? 60 * *options.minutes : 0;
  double tokens = 0, rate = 0, flops_rate = 0, step_seconds = 0;
  const auto smooth = [](double& value, double next) {
    value = value == 0 ? next : 0.9 * value + 0.1 * next;
  };
  while (progress.step < steps && (limit == 0 || progress.seconds < limit)) {
    const auto step_begin = Clock::now();
    const double lr =
        scheduled_rate(options.schedule, *options.lr, options.warmup, progress.step, steps);
    const Outcome outcome = step(lr);
    ++progress.step;
    const StepNews news =
        ranks.exchange(outcome.loss, {}, before + seconds_since(begin), stop.stop_requested());
    progress.seconds = news.seconds;
    const double elapsed = seconds_since(step_begin);
    tokens += static_cast<double>(outcome.tokens);
    smooth(rate, static_cast<double>(outcome.tokens) / elapsed);
    smooth(flops_rate, outcome.flops / elapsed / ranks.size());
    smooth(step_seconds, elapsed);
    result.losses.push_back(news.loss);
    if (observer.on_step) {
      double left = step_seconds * static_cast<double>(steps - progress.step);
      if (limit > 0) left = std::min(left, std::max(0.0, limit - progress.seconds));
      const double rows_done = static_cast<double>(progress.step * rows_per_step());
      observer.on_step({.step = progress.step,
                        .epoch = rows_done / static_cast<double>(rows->size()),
                        .loss = news.loss,
                        .lr = lr,
                        .gradient_norm = outcome.norm,
                        .tokens = outcome.tokens,
                        .tokens_per_second = rate,
                        .mfu = info.peak_flops > 0 ? flops_rate / info.peak_flops : 0,
                        .memory_allocated = get_accelerator().memory_allocated(),
                        .seconds = progress.seconds,
                        .seconds_left = left});
    }
    check_finite(news.loss, outcome.norm, lr, progress.step);
    // After the last step, there is nothing left to interrupt.
    const bool more = progress.step < steps && (limit == 0 || progress.seconds < limit);
    result.interrupted = more && (news.stop || (ranks.size() == 1 && stop.stop_requested()));
    if (result.interrupted) break;
    if (*options.eval_every > 0 && progress.step % *options.eval_every == 0)
      evaluate(result, observer);
    if (*options.save_every > 0 && progress.step % *options.save_every == 0) save();
  }
  result.seconds = seconds_since(begin);
  result.steps = progress.step;
  if (!result.interrupted && !result.losses.empty() && evaluated != progress.step)
    evaluate(result, observer);
  if (!result.losses.empty() && saved != progress.step) save();
  result.same_weights = same_weights;
  if (std::isfinite(progress.best_loss)) {
    result.best_validation_loss = progress.best_loss;
    result.best_step = progress.best_step;
  }
  if (!result.losses.empty()) {
    const std::size_t tail = std::clamp<std::size_t>(result.losses.size() / 10, 1, 20);
    result.final_loss = std::accumulate(result.losses.end() - static_cast<std::ptrdiff_t>(tail),
                                        result.losses.end(), 0.0) /
                        static_cast<double>(tail);
    result.tokens_per_second = tokens / result.seconds;
  }
  // If other ranks exited early, a launcher could terminate rank 0 while it writes.
  ranks.barrier();
  return result;
}

}  // namespace anyaccel::llm
