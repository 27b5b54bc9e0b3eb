#include "anyaccel/llm/model.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "anyaccel/accelerator.h"
#include "base/file.h"
#include "llm/model/decode_step.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "llm/parallel/plan_file.h"
#include "llm/parallel/shards.h"
#include "llm/quantize/formats.h"
#include "llm/quantize/stored_weights.h"
#include "llm/quantize/weights.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

namespace {

/// Loads all weights, or only this rank's part if there is a plan. Uses quantized weights from the
/// user's cache if present.
void fill(ModelState& state, const std::filesystem::path& folder, const LoadOptions& options,
          const StoredWeights& stored, const ParallelPlan* plan) {
  std::optional<QuantizedFile> kept;
  if (options.cache && (options.bits || stored.quantized())) kept.emplace(folder, options, plan);
  if (kept && kept->load(state.weights)) return;
  if (options.bits || stored.quantized() || !options.mmap) {
    load(state.weights, state.local, stored, plan);
  } else {
    load_mapped(state.weights, state.local, stored, plan);
  }
  if (options.bits) quantize(state.weights, state.local, options, plan);
  if (kept) kept->save(state.weights);
}

}  // namespace

Model Model::load(const std::filesystem::path& folder, c10::ScalarType dtype) {
  return load(folder, LoadOptions{.dtype = dtype});
}

Model Model::load(const std::filesystem::path& folder, const LoadOptions& options) {
  // Open the weights first, because their error message is the clearest for a wrong folder.
  const StoredWeights stored = open_stored(folder, options);
  const c10::AutoGradMode no_gradient(false);
  const auto config = ModelConfig::read(folder);
  check_shapes(config, stored);  // reject wrong sizes before they cause huge allocations
  auto state = std::make_shared<ModelState>(config, options.dtype);
  fill(*state, folder, options, stored, nullptr);
  return Model(std::move(state));
}

Model Model::load_parallel(const std::filesystem::path& folder, c10::ScalarType dtype,
                           const std::filesystem::path& plan_file) {
  return load_parallel(folder, LoadOptions{.dtype = dtype}, plan_file);
}

Model Model::load_parallel(const std::filesystem::path& folder, const LoadOptions& options,
                           const std::filesystem::path& plan_file) {
  const StoredWeights stored = open_stored(folder, options);
  const c10::AutoGradMode no_gradient(false);
  const auto config = ModelConfig::read(folder);
  check_shapes(config, stored);
  comm::ProcessGroup group = comm::init_process_group();
  const auto shapes = tensor_shapes(config);
  const ParallelPlan plan =
      make_plan(config, shapes, group.rank(), group.size(), read_style_rules(folder, plan_file),
                inner_group(config, shapes, stored, options));
  auto state = std::make_shared<ModelState>(config, plan.local, options.dtype);
  Weights& weights = state->weights;
  fill(*state, folder, options, stored, &plan);
  weights.shards = std::make_shared<Shards>(std::move(group), config, plan);
  // All ranks must use the same code path, because it determines the dtype of the exchanged sums.
  const bool one_lacks = weights.shards->any(!DecodeStep::of(weights, state->local));
  if (one_lacks) weights.step->step = nullptr;
  // Callers use this flag to decide whether to make collective calls, so it must be the same on all
  // ranks.
  weights.quantized = weights.shards->any(weights.quantized);
  return Model(std::move(state));
}

int Model::rank() const noexcept {
  return state_->weights.shards ? state_->weights.shards->rank() : 0;
}
int Model::ranks() const noexcept {
  return state_->weights.shards ? state_->weights.shards->size() : 1;
}
void Model::barrier() const {
  if (state_->weights.shards) state_->weights.shards->barrier();
}

Model Model::create(const ModelConfig& config, std::uint64_t seed) {
  config.check();
  auto state = std::make_shared<ModelState>(config, c10::kFloat);
  HostRandom random(seed);
  initialize(state->weights, config, random);
  return Model(std::move(state));
}

const ModelConfig& Model::config() const noexcept { return state_->config; }
c10::ScalarType Model::dtype() const noexcept { return state_->dtype; }
bool Model::quantized() const noexcept { return state_->weights.quantized; }
std::int64_t Model::parameter_count() const { return state_->config.parameter_count(); }

void check_ids(const ModelConfig& config, const std::vector<std::int64_t>& ids, const char* where) {
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the sequence is empty", .want = "one token or more"});
  }
  if (static_cast<std::int64_t>(ids.size()) > config.context_length()) {
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the prompt is longer than the model's context",
                 .got = std::to_string(ids.size()) + " tokens",
                 .want = "at most " + std::to_string(config.context_length()) + " tokens"});
  }
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= config.vocab_size) {
      throw Error(ErrorCode::invalid_argument, where,
                  {.what = "a token id is outside the vocabulary",
                   .got = std::to_string(id),
                   .want = "0 to " + std::to_string(config.vocab_size - 1)});
    }
  }
}

at::Tensor ids_on_device(const ModelConfig& config, const std::vector<std::int64_t>& ids,
                         const char* where) {
  check_ids(config, ids, where);
  const at::Tensor host = at::from_blob(const_cast<std::int64_t*>(ids.data()),
                                        {1, static_cast<std::int64_t>(ids.size())},
                                        at::TensorOptions().dtype(c10::kLong));
  return host.to(get_accelerator().torch_device(), c10::kLong, /*non_blocking=*/false,
                 /*copy=*/true);
}

at::Tensor Model::logits(const std::vector<std::int64_t>& ids) const {
  const c10::AutoGradMode no_gradient(false);
  const at::Tensor input = ids_on_device(state_->config, ids, "Model::logits");
  return llama_forward(state_->weights, state_->local, state_->rope, input)
      .squeeze(0)
      .to(c10::Device(c10::kCPU), c10::kFloat);
}

void Model::save(const std::filesystem::path& folder) const {
  if (ranks() > 1)
    throw Error(ErrorCode::unsupported, "Model::save",
                {.what = "cannot save one rank's shard of a model"});
  if (state_->weights.quantized) {
    throw Error(ErrorCode::unsupported, "Model::save", {.what = "cannot save quantized weights"});
  }
  std::filesystem::create_directories(folder);
  AtomicFile config(folder / "config.json");
  AtomicFile weights(folder / "model.safetensors");
  config.write(state_->config.to_json());
  NamedTensors tensors;
  for (auto& [name, tensor] : checkpoint_tensors(state_->weights, state_->config)) {
    tensors.emplace_back(name, tensor.to(c10::kFloat));
  }
  write_safetensors(weights, tensors, {{"format", "pt"}});
  weights.flush();
  config.flush();
  weights.commit();
  config.commit();
}

}  // namespace anyaccel::llm
