#include "anyaccel/llm/model.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include "anyaccel/accelerator.h"
#include "base/file.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/model/llama.h"
#include "llm/model/state.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

Model Model::load(const std::filesystem::path& folder, c10::ScalarType dtype) {
  const Checkpoint checkpoint(folder);  // before the configuration: a wrong folder is then reported as such
  const auto config = ModelConfig::read(folder);
  check_shapes(config, checkpoint);  // before a wrong size asks for more memory than there is
  auto state = std::make_shared<ModelState>(config, dtype);
  ::anyaccel::llm::load(state->weights, state->config, checkpoint);
  return Model(std::move(state));
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
std::int64_t Model::parameter_count() const { return state_->config.parameter_count(); }

at::Tensor ids_on_device(const ModelConfig& config, const std::vector<std::int64_t>& ids, const char* where) {
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_argument, where, {.what = "the sequence is empty", .want = "one token or more"});
  }
  if (static_cast<std::int64_t>(ids.size()) > config.context_length()) {
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the prompt is longer than the model's context",
                 .got = std::to_string(ids.size()) + " tokens",
                 .want = "at most " + std::to_string(config.context_length())});
  }
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= config.vocab_size) {
      throw Error(ErrorCode::invalid_argument, where,
                  {.what = "a token id is outside the vocabulary",
                   .got = std::to_string(id),
                   .want = "0.." + std::to_string(config.vocab_size - 1)});
    }
  }
  const at::Tensor host =
      at::from_blob(const_cast<std::int64_t*>(ids.data()), {1, static_cast<std::int64_t>(ids.size())},
                    at::TensorOptions().dtype(c10::kLong));
  return host.to(get_accelerator().torch_device(), c10::kLong, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor Model::logits(const std::vector<std::int64_t>& ids) const {
  const c10::AutoGradMode no_gradient(false);
  const at::Tensor input = ids_on_device(state_->config, ids, "Model::logits");
  return llama_forward(state_->weights, state_->config, state_->rope, input)
      .squeeze(0)
      .to(c10::Device(c10::kCPU), c10::kFloat);
}

void Model::save(const std::filesystem::path& folder) const {
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
