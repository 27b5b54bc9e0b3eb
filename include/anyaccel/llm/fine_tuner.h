// Fine-tuning of language models on the current accelerator.
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
#include "anyaccel/llm/stop_condition.h"

namespace anyaccel::llm {

/// Learning rate after the warm-up: cosine decay to 0, linear decay to 0, or constant, as in
/// transformers' get_scheduler().
enum class LearningRateSchedule { cosine, linear, constant };

/// Where the optimizer's state is kept and updated: on the parameters' device; in host memory, by
/// the op CPUAdam; or in a file, by CPUAdam and AsyncIO.
enum class OffloadDevice { none, host, nvme };

/// Return DeepSpeed's name of the device, as in its `offload_optimizer.device`: "none", "cpu" or
/// "nvme".
ANYACCEL_API const char* to_string(OffloadDevice device);

/// Options of a LoRA adapter (Hu et al., 2021, arXiv:2106.09685), with the same meaning as in PEFT.
struct AdapterOptions {
  std::int64_t r = 16;   ///< rank
  double alpha = 32;     ///< the adapter's output is multiplied by alpha / r
  double dropout = 0.0;  ///< dropout on the adapter's input
  /// Modules to adapt, for example "q_proj". "all-linear": all linear layers except the head.
  /// Empty: PEFT's default for the family.
  std::vector<std::string> targets = {"all-linear"};
};

/// Options for fine-tuning.
struct FineTuneOptions {
  /// Folder of the model: config.json, tokenizer.json and the weights.
  std::filesystem::path model;
  /// Start with random weights, and read only the configuration and the tokenizer.
  bool from_scratch = false;
  /// Training data: text files, JSON Lines files, and folders with such files.
  std::vector<std::filesystem::path> data;
  /// Data for evaluation, in the same formats.
  std::vector<std::filesystem::path> validation;
  /// Without `validation`: fraction of the sequences to hold out for evaluation, below 1.
  double validation_fraction = 0;
  /// Folder for the model and the state of the run.
  std::filesystem::path out = "anyaccel-model";
  bool resume = false;          ///< continue the run in `out`
  bool skip_bad_lines = false;  ///< skip malformed lines instead of failing

  /// Maximum number of tokens in a row. 0: 1024, or the model's context if it is shorter.
  std::int64_t context = 0;
  bool packing = true;  ///< put several sequences into a row; they do not attend to each other

  /// Number of steps. Default: `epochs` passes over the data.
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;   ///< number of passes over the data. Default: 1
  std::optional<double> minutes;  ///< time limit in minutes
  std::int64_t batch_size = 0;    ///< rows per forward pass over all ranks; 0: one per rank
  std::int64_t accumulation = 8;  ///< forward passes per step
  std::uint64_t seed = 0;         ///< seed for the order of the data, dropout and random weights
  /// Dtype of weights and computation: float32, or bfloat16 with float32 master weights.
  c10::ScalarType dtype = c10::kFloat;
  std::optional<AdapterOptions> adapter;  ///< train an adapter and freeze the model's weights
  int bits = 0;                         ///< with an adapter: quantize frozen weights to 8 or 4 bits
  bool gradient_checkpointing = false;  ///< recompute activations instead of storing them

  std::optional<double> lr;  ///< maximum learning rate. Default: 2e-5, with an adapter 2e-4
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  double warmup = 0.03;       ///< fraction of the steps during which the learning rate rises
  double beta1 = 0.9;         ///< AdamW: decay of the first moment
  double beta2 = 0.999;       ///< AdamW: decay of the second moment
  double weight_decay = 0.0;  ///< AdamW: decoupled weight decay of matrices
  double clip = 1.0;          ///< maximum gradient norm

  /// Steps between checkpoints; 0: only at the end. Default: 500.
  std::optional<std::int64_t> save_every;
  /// Steps between evaluations; 0: only at the end. Default: 0.
  std::optional<std::int64_t> eval_every;
  double bucket_cap_mb = 25;  ///< maximum MiB of float32 gradients that are reduced together

  /// Stage of ZeRO (Rajbhandari et al., 2020, arXiv:1910.02054), as in DeepSpeed. 1: each rank
  /// holds a part of the optimizer's state. 2: it also keeps only that part of the gradients. 0:
  /// each rank holds everything. Default: 0, with an offloaded optimizer 1.
  std::optional<int> zero_stage;
  /// Default: none.
  std::optional<OffloadDevice> offload_optimizer;
  /// With OffloadDevice::nvme: folder on the file system for the optimizer's state. It needs 12
  /// bytes per parameter that this host's ranks update, or 8 if the parameters are float32 in host
  /// memory. The file has no name and disappears with the process. DeepSpeed: nvme_path. Default:
  /// `out`.
  std::filesystem::path offload_path;
};

/// Information about a run that is available before its first step.
struct FineTuneInfo {
  std::string accelerator;                              ///< name of the accelerator
  std::string reason;                                   ///< why this accelerator was chosen
  std::string device;                                   ///< product name of the device
  std::string model_type;                               ///< family of the model
  std::int64_t parameters = 0, trained_parameters = 0;  ///< parameter counts
  /// Training data: files, texts, conversations, tokens, rows, and tokens that contribute to the
  /// loss.
  std::int64_t files = 0, texts = 0, conversations = 0, tokens = 0, rows = 0, learned_tokens = 0;
  /// Conversations that were cut off at `context` tokens, and examples without a token to train on.
  std::int64_t truncated = 0, left_out = 0;
  std::int64_t bad_lines = 0;            ///< malformed lines that were skipped
  std::vector<std::string> bad_reasons;  ///< reasons for the first few of them
  std::int64_t validation_rows = 0;      ///< rows for evaluation
  std::int64_t steps = 0;                ///< number of steps of the whole run
  std::int64_t first_step = 0;           ///< number of steps that earlier runs completed
  int rank = 0, world_size = 1;          ///< rank of this process, and number of ranks
  /// Measured speed of the device in matrix products of the run's dtype, in FLOP/s.
  double peak_flops = 0;
  FineTuneOptions options;  ///< effective options
};

/// Statistics of one finished step.
struct FineTuneStep {
  std::int64_t step = 0;         ///< 1-based step number
  double epoch = 0;              ///< completed passes over the data
  double loss = 0;               ///< mean loss in nats per token
  double lr = 0;                 ///< learning rate of the step
  double gradient_norm = 0;      ///< before clipping
  std::int64_t tokens = 0;       ///< tokens of the step, over all ranks
  double tokens_per_second = 0;  ///< speed, smoothed over recent steps
  /// Model FLOPs utilization: the FLOPs of forward and backward pass, without recomputation, per
  /// second and as a fraction of `peak_flops` (Chowdhery et al., 2022, arXiv:2204.02311).
  double mfu = 0;
  std::int64_t memory_allocated = 0;  ///< bytes of live tensors on the device
  double seconds = 0;                 ///< training time, including earlier parts of the run
  double seconds_left = 0;            ///< estimated remaining time in seconds
};

/// Result of one evaluation.
struct FineTuneEvaluation {
  std::int64_t step = 0;  ///< number of steps before the evaluation
  double loss = 0;        ///< mean loss in nats per token
  bool best = false;      ///< whether the loss is the lowest so far
  double seconds = 0;     ///< duration of the evaluation
};

/// Functions that a run calls. All are optional.
struct FineTuneObserver {
  std::function<void(const FineTuneStep&)> on_step;
  std::function<void(const FineTuneEvaluation&)> on_evaluation;
};

/// Result of a run.
struct FineTuneResult {
  std::int64_t steps = 0;      ///< number of steps of the whole run so far
  std::vector<double> losses;  ///< loss of each step in this part of the run
  double final_loss = 0;       ///< mean loss of the last tenth of these steps, at most 20 steps
  double tokens_per_second = 0, seconds = 0;
  bool interrupted = false;  ///< true if a stop request ended the run early
  bool same_weights = true;  ///< false if the weights of the ranks differed at a checkpoint
  std::optional<double> validation_loss;       ///< of the last evaluation
  std::optional<double> best_validation_loss;  ///< of the checkpoint in `out`/best
  std::int64_t best_step = 0;                  ///< step of that checkpoint
};

/// Fine-tunes a model. Owns the model, the data and the optimizer. Not thread-safe, but `stop` may
/// be requested from any thread.
///
/// `out` becomes a folder that transformers can load, or PEFT if an adapter is trained. It also
/// contains the state of the run. `out`/best contains the weights with the lowest validation loss.
///
/// In a job of several ranks (WORLD_SIZE above 1), every rank creates a FineTuner and calls run(),
/// as for Trainer. All ranks read the model and the data. A resumed run may have another number of
/// ranks, another stage of ZeRO and another offload device.
///
/// Results of ZeRO: with stage 1 and without clipping, weights are bitwise equal to those of stage
/// 0 if the ranks reduce over shared memory. The gradient norm, and therefore clipping, can differ
/// in the last bits, and so can the order in which stage 2 adds the gradients of several forward
/// passes. CPUAdam rounds differently than the device's AdamW.
///
/// In a job of several ranks, errors begin with the rank: "[rank 1] ...". If a rank cannot save,
/// all ranks throw an error that names it.
class ANYACCEL_API FineTuner {
 public:
  /// Read the data and the model or, with `resume`, the run in `out`. Throws `invalid_argument`,
  /// naming the option, for values out of range; `corrupt`, naming file and line, for malformed
  /// data; `not_found` or `io` for missing files; `unsupported` for a dtype that the accelerator
  /// lacks; and the same errors as CausalLM and Tokenizer.
  explicit FineTuner(FineTuneOptions options);
  ~FineTuner();
  FineTuner(const FineTuner&) = delete;
  FineTuner& operator=(const FineTuner&) = delete;

  const FineTuneInfo& info() const;
  /// Train, evaluate and save. If `stop` requests a stop, finish the current step, save a
  /// checkpoint and return an `interrupted` result. Throws `io` if saving fails, and
  /// `invalid_state` if a loss or gradient norm is not finite; an older checkpoint in `out` then
  /// remains intact.
  FineTuneResult run(const FineTuneObserver& observer = {}, StopCondition stop = {});

  /// Return whether a folder contains a run that FineTuner can resume, rather than one of Trainer.
  static bool can_resume(const std::filesystem::path& folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anyaccel::llm
