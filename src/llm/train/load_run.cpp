#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/config_json.h"
#include "llm/data/corpus.h"
#include "llm/train/state.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLarge = std::int64_t{1} << 60;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, "resume", {.what = what, .hint = "start over without --resume"});
}

at::Tensor checked(const SafetensorsFile& file, const std::string& name, const at::Tensor& like) {
  if (!file.contains(name)) corrupt(file.path().string() + " lacks tensor " + quoted_text(name));
  at::Tensor tensor = file.tensor(name);
  if (tensor.sizes() != like.sizes() || tensor.scalar_type() != like.scalar_type()) {
    corrupt(file.path().string() + ": tensor " + quoted_text(name) + " does not match the model");
  }
  return tensor;
}

double required_number(const JsonReader& in, const char* key) {
  if (const auto value = in.number(key)) return *value;
  corrupt(in.source() + " lacks \"" + key + "\"");
}

}  // namespace

std::string read_run_description(const fs::path& folder) {
  finish_file_group(folder);
  if (!fs::exists(folder / "trainer_state.json"))
    throw Error(ErrorCode::not_found, "train",
                {.what = "the folder contains no run to resume",
                 .got = quoted_text(folder.string()),
                 .want = "the folder of an earlier run",
                 .hint = "omit --resume to start a run"});
  Json all = {{"run", read_json_object(folder / "trainer_state.json")},
              {"model", read_json_object(folder / "config.json")}};
  const fs::path tokenizer = folder / "tokenizer.json";
  if (fs::exists(tokenizer)) all["tokenizer"] = read_json_object(tokenizer);
  // A path may contain bytes that are not UTF-8.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrainOptions run_options(const fs::path& folder, const std::string& description,
                         Progress& progress) {
  const Json all = parse_json(description, folder.string());
  const fs::path path = folder / "trainer_state.json";
  const Json& json = all["run"];
  const JsonReader in(json, path.string());
  in.required_integer("version", 1, 1);
  progress.step = in.required_integer("step", 0, kLarge);
  progress.seconds = required_number(in, "seconds");
  if (!json.contains("data_fingerprint") || !json["data_fingerprint"].is_number_unsigned()) {
    corrupt(path.string() + " lacks the data fingerprint");
  }
  progress.fingerprint = json["data_fingerprint"].get<std::uint64_t>();
  if (all.contains("tokenizer")) progress.tokenizer = all["tokenizer"].dump(1) + "\n";
  const Json* saved = in.object("options");
  if (!saved) corrupt(path.string() + " lacks options");
  const JsonReader options(*saved, path.string() + ", options");
  TrainOptions out;
  if (saved->contains("data") && (*saved)["data"].is_array()) {
    for (const Json& item : (*saved)["data"]) {
      if (item.is_string()) out.data.emplace_back(item.get<std::string>());
    }
  }
  out.steps = options.integer("steps", 1, kLarge);
  out.minutes = options.number("minutes");
  out.min_steps = options.integer("min_steps", 0, kLarge).value_or(0);
  if (!saved->contains("seed") || !(*saved)["seed"].is_number_unsigned())
    corrupt(path.string() + " lacks the seed");
  out.seed = (*saved)["seed"].get<std::uint64_t>();
  out.dtype = parse_dtype(options.string("dtype").value_or("float32"));
  out.graph = options.boolean("graph").value_or(false);
  // Runs that were saved without a vocabulary size use the byte vocabulary.
  out.vocab_size =
      options.integer("vocab_size", kByteVocabulary, kMaxVocabulary).value_or(kByteVocabulary);
  out.batch_size = options.required_integer("batch_size", 1, kLarge);
  out.lr = required_number(options, "lr");
  out.warmup = required_number(options, "warmup");
  out.beta2 = required_number(options, "beta2");
  out.weight_decay = required_number(options, "weight_decay");
  out.clip = required_number(options, "clip");
  out.dropout = required_number(options, "dropout");
  out.held_out_tokens = options.required_integer("held_out_tokens", 0, kLarge);
  out.model = model_config(all["model"], (folder / "config.json").string());
  (void)out.model.to_json();  // before training, reject a family that cannot be saved
  return out;
}

void load_run(const fs::path& folder, const RunState& state) {
  const SafetensorsFile file(folder / "training_state.safetensors");
  const Checkpoint checkpoint(folder);
  const std::string step = std::to_string(state.progress.step);
  for (const auto* metadata : {&file.metadata(), &checkpoint.metadata()}) {
    const auto it = metadata->find("step");
    if (it == metadata->end() || it->second != step) {
      corrupt(folder.string() + ": model, optimizer and trainer state are from different steps");
    }
  }
  AdamW::State moments;
  const auto named = parameters(state.model.weights);
  for (std::size_t i = 0; i < named.size(); ++i) {
    moments.exp_avg.push_back(
        checked(file, "exp_avg." + named[i].name, state.optimizer.state().exp_avg[i]));
    moments.exp_avg_sq.push_back(
        checked(file, "exp_avg_sq." + named[i].name, state.optimizer.state().exp_avg_sq[i]));
  }
  moments.step = checked(file, "step", state.optimizer.state().step);
  moments.lr = state.optimizer.state().lr;
  state.optimizer.load_state(moments);
  state.random.set_state(checked(file, "random", state.random.state()).clone());
  const Json json = read_json_object(folder / "trainer_state.json");
  const JsonReader in(json, (folder / "trainer_state.json").string());
  state.scaler.load_state(required_number(in, "loss_scale"),
                          static_cast<int>(in.required_integer("loss_scale_tracker", 0, 1 << 30)));
}

}  // namespace anyaccel::llm
