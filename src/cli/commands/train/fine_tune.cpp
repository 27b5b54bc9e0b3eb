#include "cli/commands/train/fine_tune.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/fine_tuner.h"
#include "anyaccel/llm/stop_signal.h"
#include "base/untrusted_text.h"
#include "cli/commands/commands.h"
#include "cli/commands/train/report.h"

namespace anyaccel::cli {

namespace {

using llm::FineTuneOptions;
using llm::OffloadDevice;
using llm::TrainOptions;
using nlohmann::ordered_json;

constexpr const char* kGroup = "Fine-tuning (with --model)";
constexpr const char* kLoraGroup = "LoRA (with --model)";

/// Options that apply only to training a new model.
constexpr std::string_view kNewModelOnly[] = {
    "--hidden",          "--layers",       "--heads",
    "--kv-heads",        "--head-dim",     "--intermediate",
    "--vocab-size",      "--rope-theta",   "--initializer-range",
    "--tie-embeddings",  "--random-start", "--graph",
    "--held-out-tokens", "--min-steps",    "--dropout"};

constexpr OffloadDevice kOffloadDevices[] = {OffloadDevice::none, OffloadDevice::host,
                                             OffloadDevice::nvme};

std::vector<std::string> offload_names() {
  std::vector<std::string> out;
  for (const OffloadDevice device : kOffloadDevices) out.emplace_back(to_string(device));
  return out;
}

}  // namespace

struct FineTuneCommand::Impl {
  /// An option, a function that copies its value to the options of the run, and one that returns
  /// the value that a resumed run must have. The functions may be empty.
  struct Entry {
    CLI::Option* option;
    std::function<void(FineTuneOptions&)> use;
    std::function<ordered_json(const FineTuneOptions&)> kept;
    bool own;  ///< only for fine-tuning
  };

  CLI::App& command;
  const TrainOptions& shared;
  FineTuneOptions options;
  llm::AdapterOptions adapter;
  bool lora = false, no_packing = false;
  std::string quantize, schedule = "cosine", dtype = "fp32", offload = "none";
  std::filesystem::path log, tensorboard;
  std::int64_t save_every = 500, eval_every = 0;
  int zero_stage = 0;
  double epochs = 1;
  std::vector<std::string> targets;
  CLI::Option* model = nullptr;
  std::vector<Entry> entries;

  Impl(CLI::App& app, const TrainOptions& values) : command(app), shared(values) {}

  bool given(const char* name) const { return command.get_option(name)->count() > 0; }

  void own(CLI::Option* option, std::function<void(FineTuneOptions&)> use = {},
           std::function<ordered_json(const FineTuneOptions&)> kept = {},
           const char* group = kGroup) {
    option->group(group);
    entries.push_back({option, std::move(use), std::move(kept), true});
  }

  /// Adds an option for a member of FineTuneOptions, whose default is shown in the help.
  template <typename Member>
  void member(const char* name, Member member, const char* help) {
    auto& value = member(options);
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, bool>)
      option = command.add_flag(name, value, help);
    else
      option = command.add_option(name, value, help)->capture_default_str();
    own(option, {}, [member](FineTuneOptions o) { return ordered_json(member(o)); });
  }

  /// Adds an option that training a new model has too.
  void also(const char* name, std::function<void(FineTuneOptions&)> use,
            std::function<ordered_json(const FineTuneOptions&)> kept = {}) {
    entries.push_back({command.get_option(name), std::move(use), std::move(kept), false});
  }

  void add_data_options() {
    model = command
                .add_option("-m,--model", options.model,
                            "Hugging Face folder of the model to fine-tune: config.json, "
                            "tokenizer.json and weights")
                ->type_name("DIR")
                ->group(kGroup);
    member(
        "--from-scratch", [](auto& o) -> auto& { return o.from_scratch; },
        "Start with random weights (default if the folder has none)");
    own(command
            .add_option("--validation", options.validation,
                        "Files or folders for evaluation, in the formats of --data")
            ->type_name("PATH"));
    member(
        "--validation-fraction", [](auto& o) -> auto& { return o.validation_fraction; },
        "Without --validation: fraction of the sequences to hold out for evaluation");
    own(command.add_flag("--skip-bad-lines", options.skip_bad_lines,
                         "Skip and count malformed lines of JSON Lines files"),
        {}, [](const FineTuneOptions& o) { return ordered_json(o.skip_bad_lines); });
    own(
        command.add_flag("--no-packing", no_packing,
                         "Put each sequence into its own row instead of packing several"),
        [this](FineTuneOptions& o) { o.packing = !no_packing; },
        [](const FineTuneOptions& o) { return ordered_json(o.packing); });
  }

  void add_run_options() {
    own(command.add_option("--epochs", epochs, "Passes over the data, unless --steps is given")
            ->capture_default_str(),
        [this](FineTuneOptions& o) { o.epochs = epochs; });
    member(
        "--gradient-accumulation-steps", [](auto& o) -> auto& { return o.accumulation; },
        "Forward and backward passes per step, each with --batch-size rows");
    own(
        command
            .add_option("--schedule", schedule,
                        "Learning rate schedule: cosine, linear or constant")
            ->check(CLI::IsMember({"cosine", "linear", "constant"}))
            ->capture_default_str(),
        [this](FineTuneOptions& o) {
          using enum llm::LearningRateSchedule;
          o.schedule = schedule == "cosine" ? cosine : schedule == "linear" ? linear : constant;
        },
        [](const FineTuneOptions& o) { return ordered_json(static_cast<int>(o.schedule)); });
    member(
        "--beta1", [](auto& o) -> auto& { return o.beta1; },
        "AdamW beta1, the decay rate of the first-moment estimate");
    own(command.add_flag("--gradient-checkpointing", options.gradient_checkpointing,
                         "Recompute activations in the backward pass instead of storing them"));
    own(command
            .add_option("--eval-every", eval_every,
                        "Steps between evaluations on the validation data (0: only at the end)")
            ->capture_default_str(),
        [this](FineTuneOptions& o) { o.eval_every = eval_every; });
    own(command
            .add_option("--log", log, "Append one JSON object per step and evaluation to this file")
            ->type_name("FILE"));
    own(command
            .add_option("--tensorboard", tensorboard,
                        "Write event files for TensorBoard to this folder")
            ->type_name("DIR"));
  }

  void add_memory_options() {
    own(command
            .add_option("--zero-stage", zero_stage,
                        "ZeRO stage: 1 divides the optimizer's state among the ranks, 2 also the "
                        "gradients (default: 0, with --offload-optimizer 1)")
            ->type_name("N"),
        [this](FineTuneOptions& o) { o.zero_stage = zero_stage; });
    own(command
            .add_option("--offload-optimizer", offload,
                        "Keep the optimizer's state in host memory (cpu) or in a file (nvme)")
            ->check(CLI::IsMember(offload_names()))
            ->capture_default_str(),
        [this](FineTuneOptions& o) {
          for (const OffloadDevice device : kOffloadDevices) {
            if (offload == to_string(device)) o.offload_optimizer = device;
          }
        });
    own(command
            .add_option("--offload-path", options.offload_path,
                        "Folder for the file of --offload-optimizer nvme (default: --out)")
            ->type_name("DIR"));
  }

  void add_adapter_options() {
    const auto kept = [](auto value) {
      return [value](const FineTuneOptions& o) {
        return o.adapter ? ordered_json(value(*o.adapter)) : ordered_json();
      };
    };
    own(
        command.add_flag("--lora", lora, "Train a LoRA adapter and freeze the weights"), {},
        [](const FineTuneOptions& o) { return ordered_json(o.adapter.has_value()); }, kLoraGroup);
    own(command.add_option("--lora-r", adapter.r, "Rank of the adapter")->capture_default_str(), {},
        kept([](const auto& a) { return a.r; }), kLoraGroup);
    own(command
            .add_option("--lora-alpha", adapter.alpha,
                        "Scale of the adapter's output, before division by the rank")
            ->capture_default_str(),
        {}, kept([](const auto& a) { return a.alpha; }), kLoraGroup);
    own(command.add_option("--lora-dropout", adapter.dropout, "Dropout on the adapter's input")
            ->capture_default_str(),
        {}, kept([](const auto& a) { return a.dropout; }), kLoraGroup);
    own(command
            .add_option("--lora-targets", targets,
                        "Modules to adapt, such as q_proj,v_proj (default: all-linear, all linear "
                        "layers except the head)")
            ->delimiter(',')
            ->type_name("NAMES"),
        {}, kept([](const auto& a) { return a.targets; }), kLoraGroup);
    own(
        command
            .add_option("--quantize", quantize,
                        "Quantize the frozen weights: int8 or int4 (with --lora)")
            ->check(CLI::IsMember({"int8", "int4"}))
            ->type_name("TYPE"),
        [this](FineTuneOptions& o) { o.bits = quantize == "int8" ? 8 : 4; },
        [](const FineTuneOptions& o) { return ordered_json(o.bits); }, kLoraGroup);
  }

  void add_shared_options() {
    const TrainOptions& s = shared;
    also("--data", [&s](auto& o) { o.data = s.data; });
    also("--out", [&s](auto& o) { o.out = s.out; });
    also("--steps", [&s](auto& o) { o.steps = s.steps; });
    also("--minutes", [&s](auto& o) { o.minutes = s.minutes; });
    also("--resume", [&s](auto& o) { o.resume = s.resume; });
    also("--save-every", [&s](auto& o) { o.save_every = s.save_every; });
    also("--bucket-cap-mb", [&s](auto& o) { o.bucket_cap_mb = s.bucket_cap_mb; });
    also(
        "--dtype", [this](auto& o) { o.dtype = parse_dtype(dtype); },
        [](const auto& o) { return ordered_json(dtype_name(o.dtype)); });
    also(
        "--seed", [&s](auto& o) { o.seed = s.seed; },
        [](const auto& o) { return ordered_json(o.seed); });
    also(
        "--context", [&s](auto& o) { o.context = s.model.max_positions; },
        [](const auto& o) { return ordered_json(o.context); });
    also(
        "--batch-size", [&s](auto& o) { o.batch_size = s.batch_size; },
        [](const auto& o) { return ordered_json(o.batch_size); });
    also(
        "--lr", [&s](auto& o) { o.lr = s.lr; },
        [](const auto& o) { return ordered_json(o.lr.value_or(0)); });
    also(
        "--warmup", [&s](auto& o) { o.warmup = s.warmup; },
        [](const auto& o) { return ordered_json(o.warmup); });
    also(
        "--beta2", [&s](auto& o) { o.beta2 = s.beta2; },
        [](const auto& o) { return ordered_json(o.beta2); });
    also(
        "--weight-decay", [&s](auto& o) { o.weight_decay = s.weight_decay; },
        [](const auto& o) { return ordered_json(o.weight_decay); });
    also(
        "--clip", [&s](auto& o) { o.clip = s.clip; },
        [](const auto& o) { return ordered_json(o.clip); });
  }

  void check_adapter() const {
    if (lora || shared.resume) return;
    for (const char* name : {"--lora-r", "--lora-alpha", "--lora-dropout", "--lora-targets"}) {
      if (given(name))
        throw Error(ErrorCode::invalid_argument, "train",
                    {.what = std::string(name) + " has no effect without --lora",
                     .hint = "add --lora, or omit " + std::string(name)});
    }
  }

  FineTuneOptions given_options() {
    for (const Entry& entry : entries) {
      if (entry.option->count() > 0 && entry.use) entry.use(options);
    }
    if (lora || (shared.resume && adapter_options_given())) {
      options.adapter = adapter;
      if (!targets.empty()) options.adapter->targets = targets;
    }
    return options;
  }

  bool adapter_options_given() const {
    return given("--lora-r") || given("--lora-alpha") || given("--lora-dropout") ||
           given("--lora-targets");
  }

  /// Throws `invalid_argument` for the first given option whose value differs from the resumed
  /// run's.
  void check_kept(const FineTuneOptions& wanted, const FineTuneOptions& resumed) const {
    for (const Entry& entry : entries) {
      if (entry.option->count() == 0 || !entry.kept) continue;
      const ordered_json got = entry.kept(wanted), want = entry.kept(resumed);
      if (got == want) continue;
      throw Error(ErrorCode::invalid_argument, "resume",
                  {.what = entry.option->get_name() + " differs from the saved run",
                   .got = printable_text(got.dump(), 200),
                   .want = printable_text(want.dump(), 200),
                   .hint = "omit the option, or start over without --resume"});
    }
  }
};

FineTuneCommand::FineTuneCommand(CLI::App& command, const TrainOptions& shared)
    : impl_(std::make_unique<Impl>(command, shared)) {
  impl_->add_data_options();
  impl_->add_run_options();
  impl_->add_memory_options();
  impl_->add_adapter_options();
  impl_->add_shared_options();
}

FineTuneCommand::~FineTuneCommand() = default;

bool FineTuneCommand::selected() const {
  const bool selected = impl_->model->count() > 0 ||
                        (impl_->shared.resume && llm::FineTuner::can_resume(impl_->shared.out));
  if (!selected) {
    for (const Impl::Entry& entry : impl_->entries) {
      if (entry.own && entry.option->count() > 0)
        throw Error(ErrorCode::invalid_argument, "train",
                    {.what = entry.option->get_name() + " requires --model",
                     .hint = "pass the folder of the model to fine-tune with --model"});
    }
    return false;
  }
  for (const std::string_view name : kNewModelOnly) {
    if (impl_->given(std::string(name).c_str()))
      throw Error(ErrorCode::invalid_argument, "train",
                  {.what = std::string(name) + " does not apply to fine-tuning",
                   .hint = "omit it; the model's config.json determines the model"});
  }
  impl_->check_adapter();
  return true;
}

void FineTuneCommand::run(const std::string& dtype, bool json, Context& context) {
  Impl& my = *impl_;
  my.dtype = dtype;
  const FineTuneOptions given = my.given_options();
  llm::FineTuner tuner(given);
  // From here on, a signal stops the run after the current step, with a checkpoint. Earlier, there
  // is nothing to save.
  const llm::StopSignal stop;
  const llm::FineTuneInfo& info = tuner.info();
  if (given.resume) my.check_kept(given, info.options);
  const bool speaks = info.rank == 0;
  if (speaks && !json) print_info(info);
  std::optional<FineTuneReport> report;
  llm::FineTuneObserver observer;
  if (speaks) {
    report.emplace(my.log, my.tensorboard, json, info.first_step);
    observer.on_step = [&](const llm::FineTuneStep& step) { report->step(step); };
    observer.on_evaluation = [&](const llm::FineTuneEvaluation& one) { report->evaluation(one); };
  }
  const llm::FineTuneResult result = tuner.run(observer, stop.flag());
  if (speaks) {
    report->finish();
    print_result(result, info, json);
  }
  if (result.interrupted) context.exit_code = kInterrupted;
}

}  // namespace anyaccel::cli
