#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/tokenizer.h"
#include "base/file_group.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/train/state.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

Json options_json(const TrainOptions& options) {
  Json data = Json::array();
  for (const fs::path& path : options.data)
    data.push_back(fs::absolute(path).lexically_normal().string());
  Json out = {{"data", data},
              {"min_steps", options.min_steps},
              {"seed", options.seed},
              {"dtype", dtype_name(options.dtype)},
              {"graph", options.graph},
              {"vocab_size", options.vocab_size},
              {"batch_size", options.batch_size},
              {"lr", options.lr},
              {"warmup", options.warmup},
              {"beta2", options.beta2},
              {"weight_decay", options.weight_decay},
              {"clip", options.clip},
              {"dropout", options.dropout},
              {"held_out_tokens", options.held_out_tokens}};
  out["minutes"] = options.minutes ? Json(*options.minutes) : Json();
  out["steps"] = options.steps ? Json(*options.steps) : Json();
  return out;
}

}  // namespace

void check_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::io, "save_checkpoint",
                {.what = "cannot create " + folder.string() + ": " + error.message()});
  }
  const AtomicFile removed_again(folder / "model.safetensors");
}

void save_run(const fs::path& folder, const RunState& state) {
  check_folder(folder);
  const std::string step = std::to_string(state.progress.step);
  FileGroup files(folder);
  AtomicFile& weights = files.add("model.safetensors");
  AtomicFile& training = files.add("training_state.safetensors");
  AtomicFile& trainer = files.add("trainer_state.json");
  AtomicFile& config = files.add("config.json");
  AtomicFile& tokenizer = files.add("tokenizer.json");
  AtomicFile& tokenizer_config = files.add("tokenizer_config.json");

  // Store the step in each file, so that a mix of files from different steps is detected.
  write_safetensors(weights, checkpoint_tensors(state.model.weights, state.model.config),
                    {{"format", "pt"}, {"step", step}});
  NamedTensors tensors;
  const AdamW::State& moments = state.optimizer.state();
  const auto named = parameters(state.model.weights);
  for (std::size_t i = 0; i < named.size(); ++i) {
    tensors.emplace_back("exp_avg." + named[i].name, moments.exp_avg[i]);
    tensors.emplace_back("exp_avg_sq." + named[i].name, moments.exp_avg_sq[i]);
  }
  tensors.emplace_back("step", moments.step);
  tensors.emplace_back("random", state.random.state());
  write_safetensors(training, tensors, {{"format", "pt"}, {"step", step}});
  const Json json = {{"version", 1},
                     {"step", state.progress.step},
                     {"seconds", state.progress.seconds},
                     {"data_fingerprint", state.progress.fingerprint},
                     {"loss_scale", state.scaler.get_scale()},
                     {"loss_scale_tracker", state.scaler.growth_tracker()},
                     {"options", options_json(state.options)}};
  // A path may contain bytes that are not UTF-8. Replace them instead of failing to save the run.
  trainer.write(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  config.write(state.model.config.to_json());
  tokenizer.write(state.progress.tokenizer);
  tokenizer_config.write(Tokenizer::bytes_config_json(state.model.config.max_positions));
  files.commit();
}

}  // namespace anyaccel::llm
