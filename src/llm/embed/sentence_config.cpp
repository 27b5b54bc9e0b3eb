#include "llm/embed/sentence_config.h"

#include <algorithm>
#include <string_view>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/config_json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

/// Names for a pooling mode: the flag in old files and the value of "pooling_mode" in new ones.
struct PoolingName {
  const char* flag;
  std::string_view mode;
  std::optional<Pooling> pooling;  ///< none: unsupported
};

constexpr PoolingName kPoolings[] = {
    {"pooling_mode_cls_token", "cls", Pooling::cls},
    {"pooling_mode_max_tokens", "max", Pooling::max},
    {"pooling_mode_mean_tokens", "mean", Pooling::mean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::mean_sqrt_len},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
    {"pooling_mode_lasttoken", "lasttoken", std::nullopt},
};

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<Pooling> read_pooling(const fs::path& path, bool prompt) {
  const Json object = read_json_object(path);
  const JsonReader in(object, path.string());
  std::vector<std::string> modes;
  if (in.has("pooling_mode") && object["pooling_mode"].is_array()) {
    for (const Json& mode : object["pooling_mode"])
      modes.push_back(mode.is_string() ? mode.get<std::string>() : mode.dump());
  } else if (in.has("pooling_mode")) {
    modes.push_back(*in.string("pooling_mode"));
  }
  for (const PoolingName& known : kPoolings) {
    if (in.boolean(known.flag).value_or(false)) modes.emplace_back(known.mode);
  }
  std::vector<Pooling> out;
  for (const std::string& mode : modes) {
    const auto* known = std::find_if(std::begin(kPoolings), std::end(kPoolings),
                                     [&](auto& p) { return p.mode == mode; });
    if (known == std::end(kPoolings) || !known->pooling) {
      unsupported_config(in.source(), "pooling", mode, "cls, max, mean or mean_sqrt_len_tokens");
    }
    out.push_back(*known->pooling);
  }
  std::sort(out.begin(), out.end());
  if (out.empty())
    unsupported_config(in.source(), "pooling", "none", "cls, max, mean or mean_sqrt_len_tokens");
  if (prompt && !in.boolean("include_prompt").value_or(true)) {
    unsupported_config(in.source(), "include_prompt", "false",
                       "true, or a model without a default prompt");
  }
  return out;
}

/// modules.json is untrusted: it may only name subfolders of this folder.
fs::path module_folder(const fs::path& folder, const JsonReader& in) {
  const std::string path = in.string("path").value_or("");
  if (path.empty() || path == ".") return folder;
  if (fs::path(path).filename() != path || path == "..") {
    corrupt_config(in.source() +
                   ": a module's path does not name a subfolder: " + quoted_text(path));
  }
  return folder / path;
}

/// Returns the class name: "Pooling" for "sentence_transformers.models.Pooling" or the longer path
/// in newer files.
std::string module_kind(const JsonReader& in) {
  const std::string type = in.string("type").value_or("(none)");
  return type.substr(type.rfind('.') + 1);
}

void read_modules(const fs::path& folder, SentenceConfig& config) {
  const fs::path path = folder / "modules.json";
  const Json modules = parse_json(read_file(path), path.string());
  if (!modules.is_array() || modules.empty())
    corrupt_config(path.string() + " is not a list of modules");
  // The required order of the modules: an encoder, a pooling module, and optionally a normalization
  // module.
  static constexpr std::string_view kOrder[] = {"Transformer", "Pooling", "Normalize"};
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!modules[i].is_object()) corrupt_config(path.string() + ": a module is not an object");
    const JsonReader in(modules[i], path.string());
    const std::string kind = module_kind(in);
    if (i >= std::size(kOrder) || kind != kOrder[i]) {
      throw Error(ErrorCode::unsupported, "load_config",
                  {.what = path.string() + ": this module is not supported",
                   .got = quoted_text(kind) + " at position " + std::to_string(i),
                   .want = "Transformer, Pooling and optionally Normalize, in this order"});
    }
    const fs::path inside = module_folder(folder, in);
    if (i == 0) config.encoder = inside;
    if (i == 1) config.pooling = read_pooling(inside / "config.json", !config.prompt.empty());
    if (i == 2) config.normalize = true;
  }
  if (modules.size() < 2)
    unsupported_config(path.string(), "list of modules", "Transformer", "Transformer and Pooling");
}

void read_prompt(const fs::path& path, SentenceConfig& config) {
  const Json object = read_json_object(path);
  const JsonReader in(object, path.string());
  const auto name = in.string("default_prompt_name");
  if (!name) return;
  const Json* prompts = in.object("prompts");
  const auto text =
      prompts ? JsonReader(*prompts, path.string() + ", prompts").string(*name) : std::nullopt;
  if (!text)
    corrupt_config(path.string() +
                   ": default_prompt_name does not name a prompt: " + quoted_text(*name));
  config.prompt = *text;
}

}  // namespace

SentenceConfig read_sentence_config(const fs::path& folder) {
  SentenceConfig config;
  config.encoder = folder;
  const fs::path prompts = folder / "config_sentence_transformers.json";
  if (there(prompts)) read_prompt(prompts, config);
  if (there(folder / "modules.json")) read_modules(folder, config);
  const fs::path encoder = config.encoder / "sentence_bert_config.json";
  if (!there(encoder)) return config;
  const Json object = read_json_object(encoder);
  const JsonReader in(object, encoder.string());
  config.max_tokens = in.integer("max_seq_length", 1, kMaxSize);
  config.lowercase = in.boolean("do_lower_case").value_or(false);
  return config;
}

}  // namespace anyaccel::llm
