// PEFT's adapter files.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "anyaccel/error.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "llm/causal/adapter.h"
#include "llm/checkpoint/safetensors.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr std::int64_t max_rank = 1 << 20;

[[noreturn]] void corrupt(const std::string& what, std::string got = {}, std::string want = {}) {
  throw Error(ErrorCode::corrupt, "load_adapter",
              {.what = what, .got = std::move(got), .want = std::move(want)});
}

std::string tensor_name(const std::string& module, const char* part) {
  return "base_model.model." + module + "." + part + ".weight";
}

/// Returns whether a value leaves PEFT's option disabled.
bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 ||
         (value.is_structured() && value.empty());
}

[[noreturn]] void unsupported(const std::string& source, const std::string& key, const Json& got,
                              const std::string& want) {
  throw Error(ErrorCode::unsupported, "load_adapter",
              {.what = source + ": this value of " + key + " is not supported",
               .got = printable_text(got.dump(-1, ' ', false, Json::error_handler_t::replace), 200),
               .want = want});
}

/// Rejects options that change results.
void check_options(const Json& object, const std::string& source) {
  for (const char* key : {"use_dora", "lora_bias", "modules_to_save", "rank_pattern",
                          "alpha_pattern", "trainable_token_indices", "target_parameters",
                          "layer_replication", "use_qalora", "alora_invocation_tokens",
                          "use_bdlora", "arrow_config", "kasa_config", "monteclora_config"}) {
    if (object.contains(key) && !is_off(object[key])) unsupported(source, key, object[key], "null");
  }
  const std::pair<const char*, std::vector<Json>> known[] = {
      {"peft_type", {"LORA"}},
      {"bias", {"none"}},
      // Other initializations change the base model's weights.
      {"init_lora_weights", {true, false, "gaussian", "eva", "orthogonal"}}};
  for (const auto& [key, values] : known) {
    if (!object.contains(key) || object[key].is_null()) continue;
    if (std::find(values.begin(), values.end(), object[key]) == values.end())
      unsupported(source, key, object[key], values.front().dump());
  }
}

LoraConfig read_config(const fs::path& path) {
  const Json object = read_json_object(path);
  const JsonReader in(object, path.string());
  check_options(object, path.string());
  LoraConfig out;
  out.r = in.integer("r", 1, max_rank).value_or(8);
  out.lora_alpha = in.number("lora_alpha").value_or(8);
  out.lora_dropout = in.number("lora_dropout").value_or(0);
  if (!(out.lora_dropout >= 0 && out.lora_dropout < 1))
    corrupt(path.string() + ": lora_dropout is out of range", std::to_string(out.lora_dropout),
            "a number in [0, 1)");
  out.use_rslora = in.boolean("use_rslora").value_or(false);
  if (!object.contains("target_modules")) return out;
  const Json& targets = object["target_modules"];
  if (targets.is_string()) out.target_modules = {targets.get<std::string>()};
  if (!targets.is_array()) return out;
  for (const Json& item : targets) {
    if (!item.is_string()) corrupt(path.string() + ": target_modules is not a list of names");
    out.target_modules.push_back(item.get<std::string>());
  }
  return out;
}

/// Returns the modules for which the file has tensors. target_modules is not used, because it may
/// be a regular expression.
std::vector<LinearModule> stored_modules(const SafetensorsFile& file, const ModelConfig& config,
                                         std::int64_t rank) {
  std::set<std::string> names;
  for (const auto& [name, entry] : file.entries()) names.insert(name);
  std::vector<LinearModule> out;
  const auto take = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const auto entry = file.entries().find(name);
    if (entry == file.entries().end())
      corrupt(file.path().string() + " lacks tensor " + quoted_text(name));
    if (entry->second.shape != shape)
      corrupt(file.path().string() + ": tensor " + quoted_text(name) + " has the wrong shape",
              shortened_list(entry->second.shape), shortened_list(shape));
    if (!c10::isFloatingType(entry->second.dtype))
      corrupt(file.path().string() + ": tensor " + quoted_text(name) + " has the wrong dtype",
              std::string(safetensors_dtype(entry->second.dtype)), "a floating-point dtype");
    names.erase(name);
  };
  for (const LinearModule& module : linear_modules(config)) {
    const std::string a = tensor_name(module.name, "lora_A");
    const std::string b = tensor_name(module.name, "lora_B");
    if (!file.contains(a) && !file.contains(b)) continue;
    take(a, {rank, module.inputs});
    take(b, {module.rows, rank});
    out.push_back(module);
  }
  if (!names.empty())
    corrupt(file.path().string() + ": tensor " + quoted_text(*names.begin()) +
            " does not belong to a linear layer of this model");
  if (out.empty()) corrupt(file.path().string() + " has no tensors");
  return out;
}

void check_same(const AdapterState& adapter, const LoraConfig& config,
                const std::vector<LinearModule>& modules) {
  const auto fail = [](const std::string& what, std::string got, std::string want) {
    throw Error(ErrorCode::invalid_state, "load_adapter",
                {.what = what,
                 .got = std::move(got),
                 .want = std::move(want),
                 .hint = "call remove_adapter() first"});
  };
  if (adapter.merged)
    throw Error(ErrorCode::invalid_state, "load_adapter",
                {.what = "the model's adapter is merged", .hint = "call unmerge_adapter() first"});
  if (adapter.config.r != config.r)
    fail("the model's adapter has a different rank", std::to_string(config.r),
         std::to_string(adapter.config.r));
  const bool same = std::equal(
      modules.begin(), modules.end(), adapter.modules.begin(), adapter.modules.end(),
      [](const auto& module, const auto& adapted) { return module.name == adapted.module.name; });
  if (!same)
    fail("the model's adapter has different modules", std::to_string(modules.size()) + " modules",
         std::to_string(adapter.modules.size()) + " modules");
}

}  // namespace

void save_adapter(const CausalLM& model, const fs::path& folder, const std::string& base_model) {
  const CausalState& state = model->state();
  const LoraConfig config = adapter_config(model);
  const Json json = {
      {"alpha_pattern", Json::object()},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", base_model.empty() ? state.folder.string() : base_model},
      {"bias", "none"},
      {"fan_in_fan_out", model->config().model_type == "gpt2"},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", config.lora_alpha},
      {"lora_dropout", config.lora_dropout},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", config.r},
      {"rank_pattern", Json::object()},
      {"revision", nullptr},
      {"target_modules", config.target_modules},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", config.use_rslora}};
  NamedTensors tensors;
  for (const AdaptedModule& adapted : state.adapter->modules) {
    tensors.emplace_back(tensor_name(adapted.module.name, "lora_A"), adapted.a.detach());
    tensors.emplace_back(tensor_name(adapted.module.name, "lora_B"), adapted.b.detach());
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::io, "save_adapter",
                {.what = "cannot create " + folder.string() + ": " + error.message()});
  FileGroup files(folder);
  AtomicFile& weights = files.add(weights_name);
  // A path may contain bytes that are not UTF-8.
  files.add(config_name).write(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  write_safetensors(weights, tensors, {{"format", "pt"}});
  files.commit();
}

std::string adapter_base_model(const fs::path& folder) {
  finish_file_group(folder);
  const fs::path path = folder / config_name;
  const Json object = read_json_object(path);
  return JsonReader(object, path.string()).string("base_model_name_or_path").value_or("");
}

void load_adapter(CausalLM& model, const fs::path& folder, bool trainable) {
  finish_file_group(folder);
  LoraConfig config = read_config(folder / config_name);
  const SafetensorsFile file(folder / weights_name);
  CausalState& state = model->state();
  const std::vector<LinearModule> modules = stored_modules(file, state.model->config, config.r);
  if (config.target_modules.empty()) {
    for (const LinearModule& module : modules) config.target_modules.push_back(module.name);
  }
  if (state.adapter) {
    check_same(*state.adapter, config, modules);
    state.adapter->config = config;
  } else {
    add_adapter(model, config, modules);
  }
  const c10::AutoGradMode no_gradient(false);
  for (AdaptedModule& adapted : state.adapter->modules) {
    adapted.a.copy_(file.tensor(tensor_name(adapted.module.name, "lora_A")));
    adapted.b.copy_(file.tensor(tensor_name(adapted.module.name, "lora_B")));
    adapted.a.set_requires_grad(trainable);
    adapted.b.set_requires_grad(trainable);
  }
  use_adapter(state);
}

}  // namespace anyaccel::llm
