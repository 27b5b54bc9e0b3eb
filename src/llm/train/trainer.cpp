#include "anyaccel/llm/trainer.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "anyaccel/accelerator.h"
#include "anyaccel/data_parallel.h"
#include "base/log.h"
#include "llm/data/corpus.h"
#include "llm/support/clock.h"
#include "llm/train/bigram_start.h"
#include "llm/train/evaluate.h"
#include "llm/train/options.h"
#include "llm/train/ranks.h"
#include "llm/train/schedule.h"
#include "llm/train/state.h"
#include "llm/train/step.h"
#include "text/tokenizer/text_vocabulary.h"

namespace anyaccel::llm {

namespace {

/// Default training time in minutes.
constexpr double kMinutes = 1.0;

/// Maximum ratio of the actual to the requested training time, for slow machines that need longer
/// to reach TrainOptions::min_steps.
constexpr double kPatience = 3.0;

/// With --resume, all options that affect the result come from the checkpoint. Only the training
/// time may be changed.
TrainOptions effective(TrainOptions given, Progress& progress, Ranks& ranks) {
  if (given.graph && ranks.size() > 1) {
    throw Error(ErrorCode::unsupported, "train",
                {.what = "option graph: a captured step cannot wait for other ranks",
                 .got = std::to_string(ranks.size()) + " ranks",
                 .want = "1 rank",
                 .hint = "omit the option; the results are the same"});
  }
  if (given.resume) {
    const std::string text =
        ranks.from_first(ranks.first() ? read_run_description(given.out) : std::string());
    TrainOptions saved = run_options(given.out, text, progress);
    if (!given.data.empty()) saved.data = given.data;
    if (given.steps || given.minutes) {
      saved.steps = given.steps;
      saved.minutes = given.minutes;
    }
    saved.out = given.out;
    saved.resume = true;
    saved.graph = (given.graph || saved.graph) && ranks.size() == 1;
    saved.save_every = given.save_every;
    saved.bucket_cap_mb = given.bucket_cap_mb;
    given = std::move(saved);
  } else {
    complete_model(given.model);
    if (given.batch_size == 0) given.batch_size = ranks.size();
  }
  check_options(given);
  if (given.minutes) given.min_steps = 0;  // an explicit training time is a strict limit
  return given;
}

std::vector<at::Tensor> trainable(const Weights& weights, std::vector<bool>& decay) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters(weights)) {
    tensors.push_back(parameter.tensor.requires_grad_(true));
    decay.push_back(parameter.decay);
  }
  return tensors;
}

AdamW make_optimizer(const Weights& weights, const TrainOptions& options) {
  std::vector<bool> decay;
  std::vector<at::Tensor> tensors = trainable(weights, decay);
  return AdamW(std::move(tensors),
               {.lr = options.lr, .beta2 = options.beta2, .weight_decay = options.weight_decay},
               decay);
}

}  // namespace

struct Trainer::Impl {
  explicit Impl(TrainOptions given)
      : options(effective(std::move(given), progress, ranks)),
        part(share_of_batch(options.batch_size, ranks.rank(), ranks.size())),
        corpus(load_text()),
        vocabulary(make_vocabulary()),
        train(vocabulary.encode(corpus.train)),
        held_out(vocabulary.encode(corpus.held_out)),
        random(options.seed),
        model(make_model()),
        optimizer(make_optimizer(model->state()->weights, options)),
        scaler({.enabled = options.dtype == c10::kHalf}) {
    check_dtype();
    if (ranks.first()) check_folder(options.out);  // fail before training, not after it
    check_tokens();
    ranks.check_same_data(corpus.fingerprint, corpus.source);
    if (options.resume) {
      if (progress.fingerprint != corpus.fingerprint) {
        throw Error(ErrorCode::invalid_argument, "resume",
                    {.what = "the data differ from those of the saved run: " + corpus.source,
                     .hint = "pass the same --data, or start over without --resume"});
      }
      if (ranks.first()) load_run(options.out, run_state());
      share_state();
    }
    progress.fingerprint = corpus.fingerprint;
    if (ranks.size() > 1) {
      parallel = std::make_unique<comm::DataParallel>(
          *ranks.group(), optimizer.parameters(),
          comm::DataParallelOptions{.bucket_cap_mb = options.bucket_cap_mb});
    }
    runner.emplace(*model->state(), optimizer, scaler, options, part, ranks.group(),
                   parallel.get());
  }

  /// Broadcasts the state that rank 0 loaded. DataParallel broadcasts the weights.
  void share_state() {
    const AdamW::State& moments = optimizer.state();
    ranks.from_first(moments.exp_avg);
    ranks.from_first(moments.exp_avg_sq);
    const at::Tensor generator = random.state();
    const at::Tensor scale = at::tensor(
        {scaler.get_scale(), static_cast<double>(scaler.growth_tracker())}, c10::kDouble);
    ranks.from_first({moments.step, generator, scale});
    random.set_state(generator);
    scaler.load_state(scale[0].item<double>(), static_cast<int>(scale[1].item<double>()));
  }

  Corpus load_text() const {
    const std::int64_t context = options.model.max_positions;
    if (!options.data.empty()) return load_corpus(options.data, context);
    Corpus headers = load_default_corpus(context);
    // Older runs used all headers, including generated ones.
    if (options.resume && headers.fingerprint != progress.fingerprint)
      return load_default_corpus(context, Headers::all);
    return headers;
  }

  /// All ranks learn the same vocabulary, because they read the same data. A resumed run keeps its
  /// vocabulary.
  TextVocabulary make_vocabulary() {
    auto made = options.resume ? TextVocabulary::read(progress.tokenizer,
                                                      (options.out / "tokenizer.json").string())
                               : TextVocabulary::learn(corpus.train, options.vocab_size);
    if (!options.resume) options.model.vocab_size = made.size();
    if (made.size() != options.model.vocab_size) {
      throw Error(ErrorCode::corrupt, "resume",
                  {.what = "tokenizer.json and config.json have different vocabularies",
                   .got = std::to_string(made.size()) + " tokens",
                   .want = std::to_string(options.model.vocab_size) + " tokens",
                   .hint = "start over without --resume"});
    }
    progress.tokenizer = made.json();
    return made;
  }

  void check_tokens() const {
    const auto needed = static_cast<std::size_t>(options.model.max_positions) + 1;
    if (train.size() >= needed && held_out.size() >= needed) return;
    throw Error(ErrorCode::invalid_argument, "load_data",
                {.what = "too little text",
                 .got = std::to_string(train.size()) + " training tokens and " +
                        std::to_string(held_out.size()) + " held-out tokens",
                 .want = "at least " + std::to_string(needed) + " of each",
                 .hint = "pass more --data, a shorter --context or a smaller --vocab-size"});
  }

  std::optional<Model> make_model() {
    if (options.resume && ranks.first()) return Model::load(options.out, {.mmap = false});
    Model created = Model::create(options.model, options.seed);
    HostRandom start(options.seed);
    if (options.bigram_start && !options.resume)
      start_from_bigrams(created.state()->weights, options.model, train, start);
    return created;
  }

  void check_dtype() const {
    if (options.dtype != c10::kFloat &&
        !get_accelerator().dtype_support(options.dtype).computable) {
      throw Error(
          ErrorCode::unsupported, "train",
          {.what = "the accelerator '" + get_accelerator().name() + "' does not support this dtype",
           .got = dtype_name(options.dtype)});
    }
  }

  void save() {
    if (!ranks.all_have(optimizer.parameters()) && same_weights) {
      same_weights = false;
      if (ranks.first())
        log(LogLevel::warning, "train: the weights differ between ranks after step " +
                                   std::to_string(progress.step) + "; saving those of rank 0");
    }
    if (ranks.first()) save_run(options.out, run_state());
  }

  RunState run_state() { return {*model->state(), optimizer, scaler, random, options, progress}; }

  /// Every rank draws the whole batch and uses its own part, so that the generators' states do not
  /// depend on the number of ranks.
  at::Tensor draw_batch() {
    const auto length = static_cast<std::size_t>(options.model.max_positions + 1);
    std::vector<Window> windows;
    for (std::int64_t i = 0; i < options.batch_size; ++i) {
      const auto room = static_cast<std::int64_t>(train.size() - length) + 1;
      windows.push_back({static_cast<std::size_t>(random.below(room)), length});
    }
    return window_tokens(train, std::span(windows).subspan(static_cast<std::size_t>(part.begin),
                                                           static_cast<std::size_t>(part.count)));
  }

  DropoutMasks draw_masks() {
    DropoutMasks masks;
    if (options.dropout == 0) return masks;
    for (std::int64_t i = 0; i < 2 * options.model.num_layers; ++i) {
      masks.push_back(random
                          .dropout_mask({options.batch_size, options.model.max_positions,
                                         options.model.hidden_size},
                                        options.dropout)
                          .narrow(0, part.begin, part.count));
    }
    return masks;
  }

  /// Returns the completed fraction of the run after `elapsed` seconds and progress.step steps.
  double share(double elapsed) const {
    const double by_time = elapsed / (60.0 * options.minutes.value_or(kMinutes));
    if (options.steps) {
      const double by_steps =
          static_cast<double>(progress.step) / static_cast<double>(*options.steps);
      return options.minutes ? std::max(by_steps, by_time) : by_steps;
    }
    if (options.min_steps == 0) return by_time;
    const double by_steps =
        static_cast<double>(progress.step) / static_cast<double>(options.min_steps);
    return std::max(std::min(by_time, by_steps), by_time / kPatience);
  }

  /// Returns the remaining seconds of the run at `rate` steps per second.
  double seconds_left(double rate) const {
    const auto step = static_cast<double>(progress.step);
    const double by_time = 60.0 * options.minutes.value_or(kMinutes) - progress.seconds;
    if (options.steps) {
      const double by_steps = (static_cast<double>(*options.steps) - step) / rate;
      return options.minutes ? std::max(0.0, std::min(by_steps, by_time)) : by_steps;
    }
    if (options.min_steps == 0) return std::max(0.0, by_time);
    const double by_steps = (static_cast<double>(options.min_steps) - step) / rate;
    return std::max(
        0.0, std::min(std::max(by_time, by_steps),
                      by_time + (kPatience - 1) * 60.0 * options.minutes.value_or(kMinutes)));
  }

  void evaluate(TrainResult& result) {
    const auto length = static_cast<std::size_t>(options.model.max_positions + 1);
    const auto held_out_bytes = static_cast<std::size_t>(options.held_out_tokens);
    const std::size_t window_bytes = (length - 1) * corpus.held_out.size() / held_out.size();
    const auto windows = spread_windows(held_out.size(), length, held_out_bytes / window_bytes);
    if (windows.empty()) return;
    const auto bytes = byte_windows(held_out, windows, vocabulary.lengths());
    std::size_t predicted = 0;
    for (const Window& window : bytes) predicted += window.length - 1;
    result.held_out_loss = held_out_loss(*model->state(), held_out, windows, 16, options.dtype) *
                           static_cast<double>(windows.size() * (length - 1)) /
                           static_cast<double>(predicted);
    result.unigram_entropy = unigram_entropy(corpus.held_out, bytes);
    result.ngram_loss = NgramModel(corpus.train).loss(corpus.held_out, bytes);
  }

  Ranks ranks;
  Progress progress;
  TrainOptions options;
  BatchShare part;  ///< this rank's part of each batch
  Corpus corpus;
  TextVocabulary vocabulary;
  std::vector<std::uint16_t> train, held_out;  ///< tokens
  HostRandom random;
  std::optional<Model> model;
  AdamW optimizer;
  GradScaler scaler;
  std::unique_ptr<comm::DataParallel> parallel;  ///< null for one rank
  std::optional<StepRunner> runner;
  bool same_weights = true;
  TrainInfo info;
};

Trainer::Trainer(TrainOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  TrainInfo& info = impl_->info;
  info.accelerator = get_accelerator().name();
  info.reason = detection().reason;
  info.device = get_accelerator().device_properties().name;
  info.parameters = impl_->model->parameter_count();
  info.data = impl_->corpus.source;
  info.files = impl_->corpus.files;
  info.train_bytes = static_cast<std::int64_t>(impl_->corpus.train.size());
  info.held_out_bytes = static_cast<std::int64_t>(impl_->corpus.held_out.size());
  info.train_tokens = static_cast<std::int64_t>(impl_->train.size());
  info.held_out_tokens = static_cast<std::int64_t>(impl_->held_out.size());
  info.first_step = impl_->progress.step;
  info.rank = impl_->ranks.rank();
  info.world_size = impl_->ranks.size();
  info.options = impl_->options;
}

Trainer::~Trainer() = default;

const TrainInfo& Trainer::info() const { return impl_->info; }

TrainResult Trainer::run(const std::function<void(const TrainStep&)>& on_step, StopCondition stop) {
  Impl& run = *impl_;
  Progress& progress = run.progress;
  const TrainOptions& options = run.options;
  TrainResult result;
  result.accelerator = run.info.accelerator;
  const auto begin = Clock::now();
  const double before = progress.seconds;
  const double tokens = static_cast<double>(options.batch_size * options.model.max_positions);
  double smoothed = 0;
  while (run.share(progress.seconds) < 1.0) {
    const auto step_begin = Clock::now();
    const double share = run.share(progress.seconds);
    const at::Tensor batch = run.draw_batch();
    const DropoutMasks masks = run.draw_masks();
    const double lr = learning_rate(options.lr, options.warmup, share);
    const StepOutcome outcome = run.runner->run(batch, masks, lr);
    ++progress.step;
    const StepNews news = run.ranks.exchange(outcome.loss, run.part, before + seconds_since(begin),
                                             stop.stop_requested());
    progress.seconds = news.seconds;
    const double rate = tokens / seconds_since(step_begin);
    smoothed = smoothed == 0 ? rate : 0.9 * smoothed + 0.1 * rate;
    result.losses.push_back(news.loss);
    if (on_step) {
      TrainStep report{.step = progress.step,
                       .loss = news.loss,
                       .lr = lr,
                       .gradient_norm = outcome.gradient_norm,
                       .tokens_per_second = smoothed,
                       .memory_allocated = get_accelerator().memory_allocated(),
                       .seconds = progress.seconds,
                       .seconds_left = 0,
                       .skipped = outcome.skipped};
      report.seconds_left = run.seconds_left(smoothed / tokens);
      on_step(report);
    }
    // After the last step, there is nothing left to interrupt.
    result.interrupted = run.share(progress.seconds) < 1.0 &&
                         (news.stop || (run.ranks.size() == 1 && stop.stop_requested()));
    if (result.interrupted) break;
    if (options.save_every > 0 && progress.step % options.save_every == 0) run.save();
  }
  result.seconds = seconds_since(begin);
  result.steps = progress.step;
  run.save();
  result.same_weights = run.same_weights;
  const std::size_t tail = std::clamp<std::size_t>(result.losses.size() / 10, 1, 20);
  if (!result.losses.empty()) {
    result.final_loss = std::accumulate(result.losses.end() - static_cast<std::ptrdiff_t>(tail),
                                        result.losses.end(), 0.0) /
                        static_cast<double>(tail);
    result.tokens_per_second = tokens * static_cast<double>(result.losses.size()) / result.seconds;
  }
  if (!result.interrupted && run.ranks.first()) run.evaluate(result);
  // If the other ranks exited early, a launcher could terminate rank 0 while it writes.
  run.ranks.barrier();
  return result;
}

}  // namespace anyaccel::llm
