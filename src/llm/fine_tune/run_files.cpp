#include "llm/fine_tune/run_files.h"

#include <array>
#include <cmath>
#include <exception>
#include <optional>

#include "anyaccel/error.h"
#include "anyaccel/llm/fine_tuner.h"
#include "anyaccel/llm/lora.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/fine_tune/options.h"
#include "llm/train/state.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxStep = std::int64_t{1} << 60;
constexpr std::size_t kMaxTokenizer = std::size_t{512} << 20;
/// Files that are copied from the model's folder.
constexpr std::array kCopied{"tokenizer.json",
                             "tokenizer_config.json",
                             "special_tokens_map.json",
                             "added_tokens.json",
                             "vocab.json",
                             "merges.txt",
                             "tokenizer.model",
                             "chat_template.jinja",
                             "generation_config.json"};
constexpr std::array kModelFiles{"model.safetensors", "config.json"};
constexpr std::array kAdapterFiles{"adapter_model.safetensors", "adapter_config.json"};

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, "resume", {.what = what, .hint = "start over without --resume"});
}

/// Copies those of the tokenizer's files that are missing in `out` or differ.
void add_tokenizer(FileGroup& files, const fs::path& source, const fs::path& out) {
  std::error_code ignored;
  if (fs::equivalent(source, out, ignored)) return;
  for (const char* name : kCopied) {
    if (!fs::exists(source / name)) continue;
    const std::string text = read_file(source / name, kMaxTokenizer);
    if (try_read_file(out / name, kMaxTokenizer) != text) files.add(name).write(text);
  }
}

void add_model(FileGroup& files, const CausalLM& model, const std::string& step) {
  NamedTensors tensors;
  for (auto& [name, tensor] : model->checkpoint_tensors()) tensors.emplace_back(name, tensor);
  write_safetensors(files.add("model.safetensors"), tensors, {{"format", "pt"}, {"step", step}});
  files.add("config.json").write(model->config_json());
}

/// Returns whether the run is resumed from weights in the state rather than in the model's files.
bool state_has_weights(const FineTuneOptions& options, const TrainedParameters& trained) {
  return options.adapter || trained.copied();
}

Json progress_json(const FineTuneOptions& options, const FineTuneProgress& progress) {
  Json best, base;
  if (progress.base_fingerprint) base = *progress.base_fingerprint;
  if (std::isfinite(progress.best_loss))
    best = {{"loss", progress.best_loss}, {"step", progress.best_step}};
  return {{"version", 1},
          {"kind", "fine_tune"},
          {"step", progress.step},
          {"seconds", progress.seconds},
          {"data_fingerprint", progress.fingerprint},
          {"base_fingerprint", base},
          {"best", best},
          {"options", options_json(options)}};
}

template <typename Names>
void remove_files(const fs::path& folder, const Names& names) {
  std::error_code ignored;
  for (const char* name : names) fs::remove(folder / name, ignored);
}

}  // namespace

void RunFiles::save(const CausalLM& model, const TrainedParameters& trained, Updater& updater,
                    const FineTuneOptions& options, const FineTuneProgress& progress,
                    Ranks& ranks) {
  const bool weights = state_has_weights(options, trained);
  if (!ranks.first()) {
    updater.write_state(weights, {});
    return ranks.together([] {});
  }
  // After a failure, the other ranks still send their parts. They learn about it at the end.
  std::exception_ptr failure;
  const auto attempt = [&failure](const auto& function) {
    if (failure) return;
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  const std::string step = std::to_string(progress.step);
  std::optional<FileGroup> files;
  std::optional<SafetensorsWriter> state;
  attempt([&] {
    check_folder(out_);
    files.emplace(out_);
    if (!options.adapter) add_model(*files, model, step);
    add_tokenizer(*files, source_, out_);
    state.emplace(files->add("training_state.safetensors"), updater.state_heads(weights),
                  std::map<std::string, std::string>{{"format", "pt"}, {"step", step}});
  });
  updater.write_state(weights,
                      [&](const at::Tensor& tensor) { attempt([&] { state->write(tensor); }); });
  attempt([&] {
    state->finish();
    files->add("trainer_state.json")
        .write(
            progress_json(options, progress).dump(2, ' ', false, Json::error_handler_t::replace) +
            "\n");
    files->commit();
    if (options.adapter) save_adapter(model, out_, fs::absolute(options.model).string());
  });
  ranks.together([&] {
    if (failure) std::rethrow_exception(failure);
  });
}

void RunFiles::save_best(const CausalLM& model, const FineTuneOptions& options) {
  const fs::path folder = out_ / "best";
  check_folder(folder);
  FileGroup files(folder);
  if (!options.adapter) add_model(files, model, "best");
  add_tokenizer(files, source_, folder);
  files.commit();
  if (options.adapter) save_adapter(model, folder, fs::absolute(options.model).string());
}

void RunFiles::remove_stale(const FineTuneOptions& options, bool keep_best) const {
  const auto other_kind = [&](const fs::path& folder) {
    options.adapter ? remove_files(folder, kModelFiles) : remove_files(folder, kAdapterFiles);
  };
  other_kind(out_);
  if (keep_best) {
    other_kind(out_ / "best");
    return;
  }
  remove_files(out_ / "best", kModelFiles);
  remove_files(out_ / "best", kAdapterFiles);
  remove_files(out_ / "best", kCopied);
  std::error_code ignored;
  fs::remove(out_ / "best", ignored);  // succeeds only if the folder is empty
}

FineTuneOptions read_run(const fs::path& folder, FineTuneProgress& progress) {
  const fs::path path = folder / "trainer_state.json";
  if (!fs::exists(path)) {
    throw Error(ErrorCode::not_found, "train",
                {.what = "the folder contains no run to resume",
                 .got = quoted_text(folder.string()),
                 .want = "the folder of an earlier run",
                 .hint = "omit --resume to start a run"});
  }
  const Json json = read_json_object(path);
  const JsonReader in(json, path.string());
  in.required_integer("version", 1, 1);
  progress.step = in.required_integer("step", 0, kMaxStep);
  progress.seconds = in.number("seconds").value_or(0);
  if (!json.contains("data_fingerprint") || !json["data_fingerprint"].is_number_unsigned())
    corrupt(path.string() + " lacks the data fingerprint");
  progress.fingerprint = json["data_fingerprint"].get<std::uint64_t>();
  if (const auto base = json.find("base_fingerprint"); base != json.end() && !base->is_null()) {
    if (!base->is_number_unsigned())
      corrupt(path.string() + ": base_fingerprint is not an unsigned integer");
    progress.base_fingerprint = base->get<std::uint64_t>();
  }
  if (const Json* best = in.object("best")) {
    const JsonReader part(*best, path.string() + ", best");
    progress.best_step = part.required_integer("step", 0, kMaxStep);
    if (const auto loss = part.number("loss")) progress.best_loss = *loss;
  }
  const Json* options = in.object("options");
  if (!options) corrupt(path.string() + " lacks options");
  return options_from_json(*options, path.string() + ", options");
}

void load_state(const fs::path& folder, const FineTuneOptions& options,
                const FineTuneProgress& progress, const TrainedParameters& trained,
                Updater& updater) {
  const SafetensorsFile file(folder / "training_state.safetensors");
  const std::string step = std::to_string(progress.step);
  const auto check_step = [&](const SafetensorsFile& one) {
    const auto it = one.metadata().find("step");
    if (it == one.metadata().end() || it->second != step)
      corrupt(folder.string() + ": model, optimizer and trainer state are from different steps");
  };
  check_step(file);
  if (!options.adapter) check_step(SafetensorsFile(folder / "model.safetensors"));
  updater.read_state(file, state_has_weights(options, trained));
}

bool FineTuner::can_resume(const fs::path& folder) {
  finish_file_group(folder);  // the first save may have been interrupted
  const fs::path path = folder / "trainer_state.json";
  if (!fs::exists(path)) return false;
  const Json json = read_json_object(path);
  return json.contains("kind") && json["kind"] == "fine_tune";
}

}  // namespace anyaccel::llm
