#include "llm/fine_tune/options.h"

#include <c10/core/DeviceType.h>

#include <algorithm>
#include <cmath>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxCount = std::int64_t{1} << 60;
constexpr double kMaxEpochs = 1e6;
constexpr std::int64_t kDefaultContext = 1024;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 30;

void check(bool good, const char* option, const std::string& got, const char* want) {
  if (good) return;
  throw Error(
      ErrorCode::invalid_argument, "train",
      {.what = std::string("option ") + option + " is out of range", .got = got, .want = want});
}

void check_count(std::int64_t value, std::int64_t low, const char* option) {
  check(value >= low && value <= kMaxCount, option, std::to_string(value),
        low == 0 ? "0 or more" : "1 or more");
}

[[noreturn]] void conflict(const char* what, const char* hint) {
  throw Error(ErrorCode::invalid_argument, "train", {.what = what, .hint = hint});
}

std::string number(double value) { return Json(value).dump(); }

bool fraction(double value) { return value >= 0 && value < 1; }

Json paths_json(const std::vector<fs::path>& paths) {
  Json out = Json::array();
  for (const fs::path& path : paths) out.push_back(fs::absolute(path).lexically_normal().string());
  return out;
}

std::vector<fs::path> paths(const JsonReader& in, const char* key) {
  std::vector<fs::path> out;
  if (const Json* list = in.array(key)) {
    for (const Json& item : *list) {
      if (item.is_string()) out.emplace_back(item.get<std::string>());
    }
  }
  return out;
}

OffloadDevice offload_from(const std::string& name, const std::string& source) {
  for (const auto device : {OffloadDevice::none, OffloadDevice::host, OffloadDevice::nvme}) {
    if (name == to_string(device)) return device;
  }
  throw Error(ErrorCode::corrupt, "resume", {.what = source + ": unknown offload_optimizer"});
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

LearningRateSchedule schedule_from(const std::string& name, const std::string& source) {
  for (const auto schedule : {LearningRateSchedule::cosine, LearningRateSchedule::linear,
                              LearningRateSchedule::constant}) {
    if (name == schedule_name(schedule)) return schedule;
  }
  throw Error(ErrorCode::corrupt, "resume", {.what = source + ": unknown schedule"});
}

}  // namespace

const char* schedule_name(LearningRateSchedule schedule) noexcept {
  switch (schedule) {
    case LearningRateSchedule::cosine: return "cosine";
    case LearningRateSchedule::linear: return "linear";
    case LearningRateSchedule::constant: break;
  }
  return "constant";
}

const char* to_string(OffloadDevice device) {
  static const std::string host = c10::DeviceTypeName(c10::DeviceType::CPU, /*lower_case=*/true);
  switch (device) {
    case OffloadDevice::host: return host.c_str();
    case OffloadDevice::nvme: return "nvme";
    case OffloadDevice::none: break;
  }
  return "none";
}

void check_options(const FineTuneOptions& o) {
  if (o.data.empty()) conflict("no training data", "pass text or JSON Lines files with --data");
  check(o.context == 0 || (o.context >= 2 && o.context <= kMaxContext), "context",
        std::to_string(o.context), "2 or more");
  check_count(o.steps.value_or(1), 1, "steps");
  check(o.epochs.value_or(1) > 0 && o.epochs.value_or(1) <= kMaxEpochs, "epochs",
        number(o.epochs.value_or(1)), "above 0, at most 1000000");
  check(std::isfinite(o.minutes.value_or(1)) && o.minutes.value_or(1) > 0, "minutes",
        number(o.minutes.value_or(1)), "above 0");
  check_count(o.batch_size, 0, "batch-size");
  check_count(o.accumulation, 1, "gradient-accumulation-steps");
  check_count(o.save_every.value_or(0), 0, "save-every");
  check_count(o.eval_every.value_or(0), 0, "eval-every");
  check(fraction(o.validation_fraction), "validation-fraction", number(o.validation_fraction),
        "a number of at least 0 and below 1");
  if (o.validation_fraction > 0 && !o.validation.empty())
    conflict("both validation files and a validation fraction are given", "pass only one of them");
  check(!o.lr || (*o.lr > 0 && *o.lr < 10), "lr", number(o.lr.value_or(0)), "above 0, below 10");
  check(fraction(o.warmup), "warmup", number(o.warmup), "a number of at least 0 and below 1");
  check(fraction(o.beta1), "beta1", number(o.beta1), "a number of at least 0 and below 1");
  check(fraction(o.beta2), "beta2", number(o.beta2), "a number of at least 0 and below 1");
  check(o.weight_decay >= 0, "weight-decay", number(o.weight_decay), "0 or more");
  check(o.clip > 0, "clip", number(o.clip), "above 0");
  check(o.bucket_cap_mb > 0 && o.bucket_cap_mb <= 1 << 20, "bucket-cap-mb", number(o.bucket_cap_mb),
        "a number above 0 and at most 1048576");
  check(o.zero_stage.value_or(0) >= 0 && o.zero_stage.value_or(0) <= 2, "zero-stage",
        std::to_string(o.zero_stage.value_or(0)), "0, 1 or 2");
  const OffloadDevice offload = o.offload_optimizer.value_or(OffloadDevice::none);
  if (offload != OffloadDevice::none && o.zero_stage == 0)
    conflict("an offloaded optimizer requires ZeRO stage 1 or 2", "omit --zero-stage 0");
  if (offload != OffloadDevice::nvme && !o.offload_path.empty())
    conflict("an offload path has no effect without offloading to nvme",
             "add --offload-optimizer nvme, or omit --offload-path");
  check(o.dtype == c10::kFloat || o.dtype == c10::kBFloat16, "dtype", dtype_name(o.dtype),
        "fp32 or bf16");
  check(o.bits == 0 || o.bits == 4 || o.bits == 8, "quantize", std::to_string(o.bits),
        "int8 or int4");
  if (o.bits != 0 && !o.adapter)
    conflict("quantized weights cannot be trained", "add --lora to train an adapter over them");
  if (o.adapter && o.from_scratch)
    conflict("an adapter requires trained weights", "omit --lora or --from-scratch");
  if (!o.adapter) return;
  check_count(o.adapter->r, 1, "lora-r");
  check(std::isfinite(o.adapter->alpha) && o.adapter->alpha > 0, "lora-alpha",
        number(o.adapter->alpha), "above 0");
  check(fraction(o.adapter->dropout), "lora-dropout", number(o.adapter->dropout),
        "a number of at least 0 and below 1");
}

void complete_options(FineTuneOptions& o, std::int64_t model_context, int ranks) {
  if (o.context == 0) o.context = std::min(kDefaultContext, model_context);
  if (o.context > model_context) {
    throw Error(ErrorCode::invalid_argument, "train",
                {.what = "option context is larger than the model's context",
                 .got = std::to_string(o.context),
                 .want = "at most " + std::to_string(model_context)});
  }
  if (o.batch_size == 0) o.batch_size = ranks;
  if (o.batch_size < ranks) {
    throw Error(ErrorCode::invalid_argument, "train",
                {.what = "option batch-size is out of range: it counts the rows of all ranks",
                 .got = std::to_string(o.batch_size),
                 .want = std::to_string(ranks) + " or more, one row per rank"});
  }
  if (!o.lr) o.lr = o.adapter ? 2e-4 : 2e-5;
  if (!o.save_every) o.save_every = 500;
  if (!o.eval_every) o.eval_every = 0;
  if (!o.offload_optimizer) o.offload_optimizer = OffloadDevice::none;
  if (!o.zero_stage) o.zero_stage = *o.offload_optimizer == OffloadDevice::none ? 0 : 1;
}

Json options_json(const FineTuneOptions& o) {
  Json out = {
      {"model", fs::absolute(o.model).lexically_normal().string()},
      {"from_scratch", o.from_scratch},
      {"data", paths_json(o.data)},
      {"validation", paths_json(o.validation)},
      {"validation_fraction", o.validation_fraction},
      {"skip_bad_lines", o.skip_bad_lines},
      {"context", o.context},
      {"packing", o.packing},
      {"steps", optional_json(o.steps)},
      {"epochs", optional_json(o.epochs)},
      {"minutes", optional_json(o.minutes)},
      {"batch_size", o.batch_size},
      {"gradient_accumulation_steps", o.accumulation},
      {"seed", o.seed},
      {"dtype", dtype_name(o.dtype)},
      {"bits", o.bits},
      {"gradient_checkpointing", o.gradient_checkpointing},
      {"lr", optional_json(o.lr)},
      {"schedule", schedule_name(o.schedule)},
      {"warmup", o.warmup},
      {"beta1", o.beta1},
      {"beta2", o.beta2},
      {"weight_decay", o.weight_decay},
      {"clip", o.clip},
      {"save_every", optional_json(o.save_every)},
      {"eval_every", optional_json(o.eval_every)},
      {"bucket_cap_mb", o.bucket_cap_mb},
      {"zero_stage", optional_json(o.zero_stage)},
      {"offload_optimizer", to_string(o.offload_optimizer.value_or(OffloadDevice::none))},
      {"offload_path",
       o.offload_path.empty() ? "" : fs::absolute(o.offload_path).lexically_normal().string()}};
  out["lora"] = Json();
  if (o.adapter)
    out["lora"] = {{"r", o.adapter->r},
                   {"alpha", o.adapter->alpha},
                   {"dropout", o.adapter->dropout},
                   {"targets", o.adapter->targets}};
  return out;
}

FineTuneOptions options_from_json(const Json& json, const std::string& source) {
  const JsonReader in(json, source);
  const auto number = [&](const char* key) {
    if (const auto value = in.number(key)) return *value;
    throw Error(ErrorCode::corrupt, "resume", {.what = source + " lacks \"" + key + "\""});
  };
  FineTuneOptions o;
  o.model = in.string("model").value_or("");
  o.from_scratch = in.boolean("from_scratch").value_or(false);
  o.data = paths(in, "data");
  o.validation = paths(in, "validation");
  o.validation_fraction = number("validation_fraction");
  o.skip_bad_lines = in.boolean("skip_bad_lines").value_or(false);
  o.context = in.required_integer("context", 2, kMaxContext);
  o.packing = in.boolean("packing").value_or(true);
  o.steps = in.integer("steps", 1, kMaxCount);
  o.epochs = in.number("epochs");
  o.minutes = in.number("minutes");
  o.batch_size = in.required_integer("batch_size", 1, kMaxCount);
  o.accumulation = in.required_integer("gradient_accumulation_steps", 1, kMaxCount);
  if (!json.contains("seed") || !json["seed"].is_number_unsigned())
    throw Error(ErrorCode::corrupt, "resume", {.what = source + " lacks the seed"});
  o.seed = json["seed"].get<std::uint64_t>();
  o.dtype = parse_dtype(in.string("dtype").value_or("float32"));
  o.bits = static_cast<int>(in.required_integer("bits", 0, 8));
  o.gradient_checkpointing = in.boolean("gradient_checkpointing").value_or(false);
  o.lr = number("lr");
  o.schedule = schedule_from(in.string("schedule").value_or(""), source);
  o.warmup = number("warmup");
  o.beta1 = number("beta1");
  o.beta2 = number("beta2");
  o.weight_decay = number("weight_decay");
  o.clip = number("clip");
  o.save_every = in.integer("save_every", 0, kMaxCount);
  o.eval_every = in.integer("eval_every", 0, kMaxCount);
  o.bucket_cap_mb = number("bucket_cap_mb");
  // Runs of earlier releases lack these.
  o.zero_stage = static_cast<int>(in.integer("zero_stage", 0, 2).value_or(0));
  o.offload_optimizer = offload_from(in.string("offload_optimizer").value_or("none"), source);
  o.offload_path = in.string("offload_path").value_or("");
  if (const Json* lora = in.object("lora")) {
    const JsonReader adapter(*lora, source + ", lora");
    AdapterOptions& a = o.adapter.emplace();
    a.r = adapter.required_integer("r", 1, kMaxCount);
    a.alpha = adapter.number("alpha").value_or(static_cast<double>(a.r));
    a.dropout = adapter.number("dropout").value_or(0);
    a.targets.clear();
    if (const Json* targets = adapter.array("targets")) {
      for (const Json& one : *targets) {
        if (one.is_string()) a.targets.push_back(one.get<std::string>());
      }
    }
  }
  return o;
}

FineTuneOptions resumed_options(FineTuneOptions saved, const FineTuneOptions& given) {
  if (!given.data.empty()) saved.data = given.data;
  if (!given.validation.empty()) saved.validation = given.validation;
  // LoRA reads the weights from the model's folder, which may have been moved.
  if (!given.model.empty()) saved.model = given.model;
  // A new number of steps replaces the old limits. A new time limit keeps the number of steps,
  // which also determines the learning rate.
  if (given.steps || given.epochs) {
    saved.steps = given.steps;
    saved.epochs = given.epochs;
    saved.minutes = given.minutes;
  } else if (given.minutes) {
    saved.minutes = given.minutes;
  }
  if (given.save_every) saved.save_every = given.save_every;
  if (given.eval_every) saved.eval_every = given.eval_every;
  saved.gradient_checkpointing = saved.gradient_checkpointing || given.gradient_checkpointing;
  saved.bucket_cap_mb = given.bucket_cap_mb;
  if (given.offload_optimizer) saved.offload_optimizer = given.offload_optimizer;
  const bool offloads =
      saved.offload_optimizer.value_or(OffloadDevice::none) != OffloadDevice::none;
  if (given.zero_stage) {
    saved.zero_stage = given.zero_stage;
  } else if (offloads && saved.zero_stage == 0) {
    saved.zero_stage.reset();  // was the default without an offloaded optimizer
  }
  if (!given.offload_path.empty() || saved.offload_optimizer != OffloadDevice::nvme)
    saved.offload_path = given.offload_path;
  saved.out = given.out;
  saved.resume = true;
  return saved;
}

}  // namespace anyaccel::llm
