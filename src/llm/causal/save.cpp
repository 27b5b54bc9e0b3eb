#include <filesystem>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "base/file_group.h"
#include "llm/causal/state.h"
#include "llm/checkpoint/safetensors.h"

namespace anyaccel::llm {

namespace {

void check_saveable(const CausalState& state) {
  if (state.model->weights.quantized)
    throw Error(ErrorCode::unsupported, "CausalLM::save_pretrained",
                {.what = "cannot save quantized weights", .hint = "save the adapter instead"});
  if (state.adapter && !state.adapter->merged)
    throw Error(ErrorCode::invalid_state, "CausalLM::save_pretrained",
                {.what = "the adapter is not merged",
                 .hint = "call merge_adapter() first, or save the adapter with save_adapter()"});
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> CausalLMImpl::checkpoint_tensors() const {
  state_->restore_sharing();
  return llm::checkpoint_tensors(state_->model->weights, config());
}

std::string CausalLMImpl::config_json() const {
  const std::string& text = state_->config_text;
  Json out = parse_json(text.empty() ? config().to_json() : text, "config.json");
  out["dtype"] = dtype_name(dtype());
  // Releases of transformers before 5 read this name.
  if (out.contains("torch_dtype")) out["torch_dtype"] = dtype_name(dtype());
  out.erase("quantization_config");
  return out.dump(2) + "\n";
}

void CausalLMImpl::save_pretrained(const std::filesystem::path& folder) const {
  check_saveable(*state_);
  const std::string config_text = config_json();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::io, "CausalLM::save_pretrained",
                {.what = "cannot create " + folder.string() + ": " + error.message()});
  FileGroup files(folder);
  AtomicFile& weights = files.add("model.safetensors");
  files.add("config.json").write(config_text);
  if (!state_->generation_text.empty())
    files.add("generation_config.json").write(state_->generation_text);
  write_safetensors(weights, checkpoint_tensors(), {{"format", "pt"}});
  files.commit();
}

}  // namespace anyaccel::llm
