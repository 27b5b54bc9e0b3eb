// Language-model training on the current accelerator.
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

/// Return the configuration of the demo model: 5.1 million parameters with a vocabulary of 4096
/// tokens. It is wide and shallow, because such a model trains fastest on two cores, and its
/// context of 128 tokens is short, which allows more updates per minute. Its RoPE theta (300) is
/// smaller than Llama's to suit that context.
ANYACCEL_API ModelConfig demo_model();

/// Training options. With the defaults, a model of a few million parameters beats an order-3 n-gram
/// model in about a minute on two CPU cores.
struct TrainOptions {
  /// Files and folders with text; empty: LibTorch's C++ headers.
  std::vector<std::filesystem::path> data;
  /// Folder for the model and its checkpoints.
  std::filesystem::path out = "anyaccel-model";
  std::optional<std::int64_t> steps;  ///< number of steps
  /// Time limit in minutes. With `steps`, training ends at whichever comes first. Default without
  /// both: 1.
  std::optional<double> minutes;
  /// Minimum number of steps if neither `steps` nor `minutes` is set. A run that has not reached
  /// this step continues beyond the default time, but stops after 3 minutes.
  std::int64_t min_steps = 1000;
  /// Seed for all random numbers in the run.
  std::uint64_t seed = 0;
  c10::ScalarType dtype = c10::kFloat;  ///< float32, or the dtype for autocast
  bool graph = false;                   ///< capture one whole step in a graph and replay it
  bool resume = false;                  ///< continue the run whose checkpoint is in `out`
  std::int64_t save_every = 0;          ///< number of steps between checkpoints; 0: only at the end

  /// Configuration of the model. The trainer sets the vocabulary and the special tokens.
  ModelConfig model = demo_model();
  /// Initialize the model as a bigram model of the data instead of with random weights.
  bool bigram_start = true;
  /// Size of the learned vocabulary; smaller if the text is short. 257: byte tokens.
  std::int64_t vocab_size = 4096;
  std::int64_t batch_size = 0;  ///< sequences per step over all ranks; 0: one per rank
  double bucket_cap_mb = 25;    ///< maximum MiB of gradients per all-reduce
  /// Maximum learning rate.
  double lr = 1e-3;
  double warmup = 0.03;  ///< fraction of the run during which the learning rate warms up
  /// Decay of AdamW's second moment. It is high because batches are small.
  double beta2 = 0.99;
  /// Decoupled weight decay.
  double weight_decay = 0.1;
  double clip = 1.0;  ///< maximum gradient norm
  /// Dropout probability.
  double dropout = 0.0;
  /// Number of held-out bytes (not tokens) for evaluation.
  std::int64_t held_out_tokens = 65536;
};

/// Information about a run that is available before its first step.
struct TrainInfo {
  /// Name of the accelerator.
  std::string accelerator;
  std::string reason;  ///< why this accelerator was chosen
  std::string device;  ///< product name of the device
  /// Number of parameters.
  std::int64_t parameters = 0;
  /// Description of the training data.
  std::string data;
  /// Number of files, and number of bytes for training and evaluation.
  std::int64_t files = 0, train_bytes = 0, held_out_bytes = 0;
  /// Number of tokens for training and evaluation.
  std::int64_t train_tokens = 0, held_out_tokens = 0;
  std::int64_t first_step = 0;  ///< number of steps that earlier runs completed
  /// Rank of this process, and number of ranks.
  int rank = 0, world_size = 1;
  TrainOptions options;  ///< effective options
};

/// Statistics of one finished step.
struct TrainStep {
  std::int64_t step = 0;  ///< 1-based step number
  double loss = 0;        ///< mean loss over the batch, in nats per token
  /// Learning rate of the step.
  double lr = 0;
  /// Gradient norm before clipping.
  double gradient_norm = 0;
  double tokens_per_second = 0;  ///< speed, smoothed over recent steps
  /// Bytes of live tensors on the device.
  std::int64_t memory_allocated = 0;
  double seconds = 0;       ///< time since training began
  double seconds_left = 0;  ///< estimated remaining time
  bool skipped = false;     ///< whether the update was skipped because gradients overflowed
};

/// Result of a run.
struct TrainResult {
  /// Name of the accelerator.
  std::string accelerator;
  std::int64_t steps = 0;
  std::vector<double> losses;  ///< loss of each step in this run
  /// Mean loss of the last tenth of the steps, at most 20 steps; 0 if no step ran.
  double final_loss = 0;
  double tokens_per_second = 0;
  double seconds = 0;
  /// True if a stop request ended the run early.
  bool interrupted = false;
  /// False if the weights of the ranks differed in any bit when a checkpoint was written. Then
  /// either the hosts round differently, or AnyAccel has a defect.
  bool same_weights = true;
  /// Losses on the same held-out bytes, in nats per byte: of the model, of an order-0 model and of
  /// an order-3 n-gram model. Empty after an interruption.
  std::optional<double> held_out_loss, unigram_entropy, ngram_loss;
};

/// Owns the model, data and optimizer for one run. Not thread-safe, but `stop` may be requested
/// from any thread.
///
/// In a job of several ranks (WORLD_SIZE above 1), every rank creates a Trainer and calls run().
/// The ranks train one model, each on its part of every batch. Apart from rounding, the result
/// equals that of a single rank that trains on whole batches. All ranks read the data. Only rank 0
/// reads and writes `out`, and its clock decides when the run ends. Reported values cover all ranks
/// and are the same on each. A stop request on one rank stops all ranks.
///
///     TrainOptions options;
///     options.data = {"corpus.txt"};
///     Trainer trainer(options);
///     const TrainResult result = trainer.run();
class ANYACCEL_API Trainer {
 public:
  /// Read the data, and create the model or, with `resume`, read it from `out`. Throws
  /// `invalid_argument` for out-of-range options, `not_found` or `io` for the data, `unsupported`
  /// for a dtype that the accelerator lacks, `io` if `out` cannot be written, and the same errors
  /// as Model::load(). With several ranks, also throws `unsupported` for `graph`, and the same
  /// errors as comm::init_process_group().
  explicit Trainer(TrainOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Information about the run, with its effective options.
  const TrainInfo& info() const;
  /// Train, save and evaluate. `on_step` is called after each step. If `stop` requests a stop,
  /// training finishes the current step, saves a checkpoint and returns an `interrupted` result.
  ///
  /// Throws `io` if saving fails; an older checkpoint in `out` then remains intact. All ranks
  /// return at the same time. If a rank dies, the others throw `unavailable`. Only rank 0 has
  /// held-out losses.
  TrainResult run(const std::function<void(const TrainStep&)>& on_step = {},
                  StopCondition stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::llm
