#include "llm/fine_tune/start.h"

#include "anyaccel/accelerator.h"
#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/lora.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "llm/fine_tune/options.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

bool has_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") ||
         fs::exists(folder / "model.safetensors.index.json");
}

/// Returns the name of a file with weights in a format that this library does not read, or an empty
/// string.
std::string unreadable_weights(const fs::path& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json",
                           "consolidated.00.pth", "tf_model.h5", "flax_model.msgpack"}) {
    if (fs::exists(folder / name)) return name;
  }
  return {};
}

}  // namespace

FineTuneOptions starting_options(FineTuneOptions given, FineTuneProgress& progress, Ranks& ranks) {
  if (given.resume) {
    if (ranks.first()) finish_file_group(given.out);
    ranks.barrier();
    given = resumed_options(read_run(given.out, progress), given);
  }
  check_options(given);
  std::error_code ignored;
  if (fs::equivalent(given.model, given.out, ignored)) {
    throw Error(ErrorCode::invalid_argument, "train",
                {.what = "the run would overwrite the model that it starts from",
                 .got = "--out " + quoted_text(given.out.string()),
                 .want = "a folder other than --model"});
  }
  if (!given.resume && !fs::exists(given.model / "config.json")) {
    throw Error(ErrorCode::not_found, "train",
                {.what = "the model folder has no config.json",
                 .got = quoted_text(given.model.string()),
                 .want = "a Hugging Face folder with config.json and tokenizer.json"});
  }
  if (!given.resume && !given.from_scratch && !has_weights(given.model)) {
    const std::string other = unreadable_weights(given.model);
    if (!other.empty())
      throw Error(ErrorCode::unsupported, "train",
                  {.what = "the model folder has weights in an unsupported format",
                   .got = quoted_text((given.model / other).string()),
                   .want = "model.safetensors or model.safetensors.index.json",
                   .hint = "convert the weights, or pass --from-scratch to ignore them"});
    given.from_scratch = true;
  }
  check_options(given);
  return given;
}

CausalLM starting_model(const FineTuneOptions& o) {
  const CausalLMOptions options{.dtype = o.dtype, .bits = o.bits};
  // A resumed run without an adapter reads its weights from its own folder.
  const bool own = o.resume && !o.adapter;
  CausalLM model = o.from_scratch && !own
                       ? CausalLM::from_config(o.model, o.seed, options)
                       : CausalLM::from_pretrained(own ? o.out : o.model, options);
  if (o.adapter)
    inject_adapter(model, {.r = o.adapter->r,
                           .lora_alpha = o.adapter->alpha,
                           .lora_dropout = o.adapter->dropout,
                           .target_modules = o.adapter->targets,
                           .seed = o.seed});
  if (o.gradient_checkpointing) model->gradient_checkpointing(true);
  model->train();
  return model;
}

void check_dtype(c10::ScalarType dtype) {
  if (dtype == c10::kFloat || get_accelerator().dtype_support(dtype).computable) return;
  throw Error(
      ErrorCode::unsupported, "train",
      {.what = "the accelerator '" + get_accelerator().name() + "' does not support this dtype",
       .got = dtype_name(dtype)});
}

}  // namespace anyaccel::llm
