#include "cli/commands/adapter.h"

#include <filesystem>

#include "anyaccel/error.h"
#include "anyaccel/llm/lora.h"
#include "base/untrusted_text.h"

namespace anyaccel::cli {

namespace fs = std::filesystem;

void find_base_model(GenerationOptions& options) {
  const fs::path folder = options.model;
  std::error_code ignored;
  if (!options.adapter.empty() || fs::exists(folder / "config.json", ignored) ||
      !fs::exists(folder / "adapter_config.json", ignored))
    return;
  const std::string base = llm::adapter_base_model(folder);
  if (!fs::is_directory(base, ignored)) {
    const std::string adapter = "the adapter in " + quoted_text(folder.string());
    throw Error(ErrorCode::not_found, "adapter",
                {.what = base.empty() ? adapter + " does not name a base model"
                                      : "the base model of " + adapter + " is not a folder",
                 .got = base.empty() ? "" : quoted_text(base),
                 .hint = "pass --model BASE_MODEL --adapter " + quoted_text(folder.string())});
  }
  options.adapter = options.model;
  options.model = base;
}

llm::Model load_with_adapter(const GenerationOptions& options) {
  const llm::LoadOptions load = load_options(options);
  if (options.adapter.empty()) return llm::Model::load(options.model, load);
  auto model = llm::CausalLM::from_pretrained(
      options.model,
      {.dtype = load.dtype, .bits = load.bits, .group_size = load.group_size, .cache = load.cache});
  llm::load_adapter(model, options.adapter, /*trainable=*/false);
  llm::merge_adapter(model);
  return model->model();
}

}  // namespace anyaccel::cli
