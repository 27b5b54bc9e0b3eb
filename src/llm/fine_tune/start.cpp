#include "llm/fine_tune/start.h"

#include <algorithm>

#include "anyaccel/accelerator.h"
#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "anyaccel/llm/lora.h"
#include "base/file_group.h"
#include "base/fnv1a.h"
#include "base/untrusted_text.h"
#include "llm/causal/state.h"
#include "llm/fine_tune/options.h"
#include "llm/model/weights.h"

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

/// Extends a hash by about 1024 elements of a tensor, evenly distributed.
std::uint64_t hash_of(std::uint64_t hash, const std::string& name, const at::Tensor& tensor) {
  constexpr std::int64_t kElements = 1024;
  if (!tensor.defined()) return hash;
  const at::Tensor flat = tensor.detach().reshape({-1});
  const std::int64_t step = std::max<std::int64_t>(1, flat.numel() / kElements);
  const at::Tensor host = flat.slice(0, 0, flat.numel(), step).contiguous().cpu();
  hash = fnv1a(fnv1a(hash, name), std::uint64_t{0});
  return fnv1a(hash, {static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
}

/// Hashes elements of all of the model's weights and scales, without adapters. Training changes
/// nearly all elements, so a model that was trained has a different hash.
std::uint64_t weights_fingerprint(const CausalLM& model) {
  Weights& weights = model->state().model->weights;
  std::uint64_t hash = kFnv1aStart;
  each_parameter(weights, [&](const std::string& name, at::Tensor& tensor) {
    hash = hash_of(hash, name, tensor);
  });
  each_matrix(weights, [&](const std::string& name, at::Tensor& weight, Scales& scales) {
    if (scales.scales.defined()) hash = hash_of(hash, name, weight);
    hash = hash_of(hash, name, scales.scales);
    hash = hash_of(hash, name, scales.zeros);
  });
  return hash;
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

void check_base_weights(const CausalLM& model, const FineTuneOptions& options,
                        FineTuneProgress& progress) {
  const std::uint64_t fingerprint = weights_fingerprint(model);
  if (progress.base_fingerprint && *progress.base_fingerprint != fingerprint) {
    throw Error(ErrorCode::invalid_argument, "resume",
                {.what = "the weights of the model differ from those of the saved run",
                 .got = quoted_text(options.model.string()),
                 .want = "the model with which the adapter was trained",
                 .hint = "restore the model, or start over without --resume"});
  }
  progress.base_fingerprint = fingerprint;
}

void check_dtype(c10::ScalarType dtype) {
  if (dtype == c10::kFloat || get_accelerator().dtype_support(dtype).computable) return;
  throw Error(
      ErrorCode::unsupported, "train",
      {.what = "the accelerator '" + get_accelerator().name() + "' does not support this dtype",
       .got = dtype_name(dtype)});
}

}  // namespace anyaccel::llm
