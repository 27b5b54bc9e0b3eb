// Training a language model on the current accelerator.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/config.h"
#include "anyaccel/llm/stop_condition.h"

namespace anyaccel::llm {

/// The demo's model: 5.1 million parameters with a vocabulary of 4096 tokens. It is wide and
/// shallow, because two cores train such a model fastest, and its context of 128 tokens is short,
/// which allows more updates per minute. Its positions rotate faster than Llama's (theta 300) to
/// suit that context.
ANYACCEL_API ModelConfig demo_model();

/// Training settings. With the defaults, a few million parameters beat an order-3 model in about a
/// minute on two CPU cores.
struct TrainOptions {
  std::vector<std::filesystem::path> data;  ///< files and folders; empty: LibTorch's C++ headers
  std::filesystem::path out = "anyaccel-model";
  std::optional<std::int64_t> steps;  ///< number of steps
  std::optional<double>
      minutes;  ///< time limit; with `steps`, whichever ends first; default without both: 1
  std::int64_t min_steps =
      1000;  ///< without both, a slow run continues to this many steps, for at most 3 minutes
  std::uint64_t seed = 0;
  c10::ScalarType dtype = c10::kFloat;  ///< float32, or the type for autocast
  bool graph = false;                   ///< capture one whole step and replay it
  bool resume = false;                  ///< continue from `out`
  std::int64_t save_every = 0;          ///< steps between checkpoints; 0: only at the end

  ModelConfig model = demo_model();  ///< vocabulary and special tokens are set by the trainer
  bool bigram_start = true;  ///< start as a bigram model of the data, not with random weights
  std::int64_t vocab_size =
      4096;  ///< size of the learned vocabulary; smaller if the text is short; 257: bytes
  std::int64_t batch_size = 0;  ///< sequences per step, over all ranks; 0: one per rank
  double bucket_cap_mb = 25;    ///< maximum MiB of gradients that ranks reduce at once
  double lr = 1e-3;
  double warmup = 0.03;  ///< fraction of the run in which the learning rate rises
  double beta2 = 0.99;   ///< high, because batches are small
  double weight_decay = 0.1;
  double clip = 1.0;  ///< maximum gradient norm
  double dropout = 0.0;
  std::int64_t held_out_tokens = 65536;  ///< number of held-out bytes (not tokens) to evaluate on
};

/// What is known before the first step.
struct TrainInfo {
  std::string accelerator;
  std::string reason;  ///< why this one was chosen
  std::string device;  ///< product name
  std::int64_t parameters = 0;
  std::string data;
  std::int64_t files = 0, train_bytes = 0, held_out_bytes = 0;
  std::int64_t train_tokens = 0, held_out_tokens = 0;
  std::int64_t first_step = 0;  ///< steps done before, when resumed
  int rank = 0, world_size = 1;
  TrainOptions options;  ///< effective options
};

/// One finished step.
struct TrainStep {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< mean over the batch, nats per token
  double lr = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  ///< smoothed
  std::int64_t memory_allocated = 0;
  double seconds = 0;       ///< since training began
  double seconds_left = 0;  ///< estimate
  bool skipped = false;     ///< the gradients overflowed: no update
};

/// The outcome.
struct TrainResult {
  std::string accelerator;
  std::int64_t steps = 0;
  std::vector<double> losses;  ///< of this run's steps
  double final_loss =
      0;  ///< mean of the last steps (a tenth of the run, 20 at most); 0 without any
  double tokens_per_second = 0;
  double seconds = 0;
  bool interrupted = false;
  /// False when weights were not the same bits on all ranks at one of the saves: hosts that compute
  /// differently, or a defect.
  bool same_weights = true;
  /// On the same held-out bytes, nats per byte; nothing after an interruption.
  std::optional<double> held_out_loss, unigram_entropy, ngram_loss;
};

/// Owns model, data and optimizer of one run. Not thread-safe, but `stop` may be set from anywhere.
///
/// In a job of several ranks (a launcher's WORLD_SIZE above 1) each makes one and calls run(): they
/// train one model, each on its part of every batch, as one rank would on the whole of it, but for
/// rounding. Rank 0 alone reads and writes `out`, and its clock counts; the data are read by all.
/// What is reported is of all ranks and the same on each; `stop` on one of them stops all.
class ANYACCEL_API Trainer {
 public:
  /// Reads the data, then makes the model or, with `resume`, reads it from `out`. Throws
  /// `invalid_argument` for options out of range, `not_found` or `io` for data, `unsupported` for a
  /// dtype that the accelerator lacks, `io` when `out` cannot be written, and what Model::load
  /// throws. With several ranks also `unsupported` for `graph`, and the errors of
  /// comm::init_process_group().
  explicit Trainer(TrainOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const TrainInfo& info() const;
  /// Trains, saves and evaluates. When `stop` requests it, training finishes the current step,
  /// saves a checkpoint and returns an `interrupted` result. Throws `io` if saving fails; an older
  /// checkpoint in `out` then remains intact. All ranks return together. If a rank dies, the others
  /// throw `unavailable`. Only rank 0 has held-out losses.
  TrainResult run(const std::function<void(const TrainStep&)>& on_step = {},
                  StopCondition stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::llm
