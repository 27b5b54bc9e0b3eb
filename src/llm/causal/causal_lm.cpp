#include "anyaccel/llm/causal_lm.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "anyaccel/accelerator.h"
#include "base/file.h"
#include "llm/causal/batch.h"
#include "llm/causal/loss.h"
#include "llm/causal/recompute.h"
#include "llm/causal/state.h"
#include "llm/checkpoint/config_json.h"
#include "llm/model/layers.h"

namespace anyaccel::llm {

namespace {

std::unique_ptr<CausalState> with_config(Model model, const std::filesystem::path& folder) {
  auto state = std::make_unique<CausalState>(std::move(model));
  const auto path = folder / "config.json";
  state->config_text = read_file(path);
  state->training =
      read_training_config(parse_json(state->config_text, path.string()), path.string());
  state->generation_text = try_read_file(folder / "generation_config.json").value_or("");
  return state;
}

std::unique_ptr<CausalState> read_folder(const std::filesystem::path& folder,
                                         const CausalLMOptions& options) {
  LoadOptions load;
  load.dtype = options.dtype;
  load.bits = options.bits;
  load.group_size = options.group_size;
  load.cache = options.cache;
  load.mmap = false;  // the optimizer changes the weights
  auto state = with_config(Model::load(folder, load), folder);
  state->folder = folder;
  return state;
}

/// Creates a model with random weights. They are drawn in float32, so that they do not depend on
/// the dtype.
Model random_model(const ModelConfig& config, std::uint64_t seed, const CausalLMOptions& options) {
  if (options.bits != 0)
    throw Error(ErrorCode::invalid_argument, "CausalLM::from_config",
                {.what = "random weights cannot be quantized",
                 .got = std::to_string(options.bits) + " bits",
                 .want = "0 bits"});
  Model model = Model::create(config, seed);
  if (options.dtype == c10::kFloat) return model;
  ModelState& state = *model.state();
  const bool tied = config.tie_word_embeddings;
  each_parameter(state.weights, [&](const std::string&, at::Tensor& tensor) {
    tensor = tensor.to(options.dtype);
  });
  if (tied) state.weights.head = state.weights.embedding;
  state.dtype = options.dtype;
  return model;
}

/// The cosines and sines of a batch's positions.
Rotation rotation_of(const TokenBatch& batch, RopeTables& rope, bool window) {
  const std::int64_t time = batch.ids.size(1);
  if (!batch.positions.defined()) return window ? rope.window_rows(0, time) : rope.rows(0, time);
  const auto [cos, sin] =
      window ? rope.window_tables(batch.span, batch.span) : rope.tables(batch.span, batch.span);
  const at::Tensor flat = batch.positions.reshape({-1});
  const auto rows = [&](const at::Tensor& table) {
    std::vector<std::int64_t> shape = batch.positions.sizes().vec();
    shape.push_back(table.size(1));
    return table.index_select(0, flat).view(shape);
  };
  return {rows(cos), rows(sin)};
}

std::vector<BatchSequence> sequences_of(const TokenBatch& batch) {
  const c10::Device device = batch.ids.device();
  std::vector<BatchSequence> out;
  std::int64_t begin = 0;
  const auto add = [&](std::int64_t time) {
    out.push_back({nullptr, 0, begin, time, Masks(0, time, device)});
    begin += time;
  };
  if (batch.lengths.empty()) add(batch.ids.size(1));
  for (const std::int64_t length : batch.lengths) add(length);
  return out;
}

/// Input of the first layer.
at::Tensor embed(const Weights& weights, const ModelConfig& config, const TokenBatch& batch,
                 const TrainingConfig& training, bool train) {
  at::Tensor x = embed_tokens(weights, config, batch.ids, training.padding_id);
  if (config.learned_positions) {
    x = x.add(batch.positions.defined()
                  ? at::embedding(weights.positions, batch.positions.add(config.position_offset))
                  : weights.positions.narrow(0, config.position_offset, batch.ids.size(1)));
  }
  const bool drops = train && training.embedding_dropout > 0;
  return drops ? at::dropout(x, training.embedding_dropout, /*train=*/true) : x;
}

/// Output of the last layer.
at::Tensor run_layers(CausalState& state, const Weights& weights, const TokenBatch& batch,
                      bool train) {
  const std::shared_ptr<ModelState>& model = state.model;
  const ModelConfig& config = model->config;
  Rotation rotation, window_rotation;
  if (!config.learned_positions) {
    rotation = rotation_of(batch, model->rope, /*window=*/false);
    if (!config.windows.empty()) window_rotation = rotation_of(batch, model->rope, true);
  }
  LayerDropout dropout;
  if (train) {
    dropout.attention = state.training.attention_dropout;
    dropout.residual = state.training.residual_dropout;
    if (state.adapter) dropout.adapter = state.adapter->config.lora_dropout;
  }
  const bool random = dropout.attention > 0 || dropout.residual > 0 || dropout.adapter > 0;
  const bool recomputes = state.checkpointing && train && c10::GradMode::is_enabled();
  const auto parts = std::make_shared<std::vector<BatchSequence>>(sequences_of(batch));
  at::Tensor x = embed(weights, config, batch, state.training, train);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    if (train && state.training.layer_drop > 0 &&
        at::rand({}, x.options().dtype(c10::kFloat)).item<double>() < state.training.layer_drop)
      continue;
    const bool slides = !config.windows.empty() && config.windows[i] > 0;
    const LayerFunction run = [model, parts, dropout, index = static_cast<std::int64_t>(i),
                               own = slides ? window_rotation : rotation](const LayerWeights& layer,
                                                                          const at::Tensor& in) {
      return decoder_layer(layer, model->config, in, own, index, *parts, nullptr, dropout);
    };
    x = recomputes ? recompute_in_backward(weights.layers[i], x, random, run)
                   : run(weights.layers[i], x);
  }
  return head_input(weights, config, x);
}

/// Logits of all tokens in the shape of the input, with zeros for padding.
at::Tensor spread(const at::Tensor& rows, const TokenBatch& batch, const at::Tensor& ids) {
  const at::Tensor flat = rows.reshape({-1, rows.size(-1)});
  const at::Tensor all = batch.index.defined() ? at::zeros({ids.numel(), flat.size(1)},
                                                           flat.options().requires_grad(false))
                                                     .index_copy(0, batch.index, flat)
                                               : flat;
  return all.view({ids.size(0), ids.size(1), flat.size(1)});
}

void convert(CausalState& state, c10::ScalarType dtype) {
  ModelState& model = *state.model;
  if (dtype == model.dtype) return;
  if (model.weights.quantized)
    throw Error(ErrorCode::unsupported, "CausalLM::to",
                {.what = "cannot convert a model with quantized weights",
                 .got = std::string(c10::toString(dtype)),
                 .want = c10::toString(model.dtype)});
  const c10::AutoGradMode no_gradient(false);
  const bool tied = model.weights.head.is_same(model.weights.embedding);
  if (tied) model.weights.head.reset();
  state.each_leaf([&](at::Tensor& base, Leaves& leaves) {
    base = base.to(dtype);
    for (std::size_t i = 0; i < leaves.tensors.size(); ++i) {
      at::Tensor& leaf = leaves.tensors[i];
      const at::Tensor gradient = leaf.grad();
      leaf.mutable_grad().reset();
      leaf.set_data(leaves.places[i].view(base));
      if (gradient.defined()) leaf.mutable_grad() = gradient.to(dtype);
    }
  });
  if (tied) model.weights.head = model.weights.embedding;
  model.dtype = dtype;
  state.weights_replaced();
}

void check_device(torch::Device device) {
  const c10::Device own = get_accelerator().torch_device();
  if (device.type() == own.type() && (!device.has_index() || device == own)) return;
  throw Error(ErrorCode::unsupported, "CausalLM::to",
              {.what = "a model cannot leave the accelerator's current device",
               .got = device.str(),
               .want = own.str(),
               .hint = "select the device with set_device() before creating the model"});
}

}  // namespace

CausalLMImpl::CausalLMImpl(const std::filesystem::path& folder, const CausalLMOptions& options)
    : CausalLMImpl(read_folder(folder, options)) {}

CausalLMImpl::CausalLMImpl(const ModelConfig& config, std::uint64_t seed,
                           const CausalLMOptions& options)
    : CausalLMImpl(std::make_unique<CausalState>(random_model(config, seed, options))) {}

CausalLMImpl::CausalLMImpl(const std::filesystem::path& folder, std::uint64_t seed,
                           const CausalLMOptions& options)
    : CausalLMImpl(with_config(random_model(ModelConfig::read(folder), seed, options), folder)) {}

CausalLMImpl::CausalLMImpl(std::unique_ptr<CausalState> state)
    : torch::nn::Module("CausalLM"), state_(std::move(state)) {
  make_leaves(*state_);
  for (const Leaves& leaves : state_->leaves) {
    for (std::size_t i = 0; i < leaves.tensors.size(); ++i)
      add_parameter(*this, *state_, leaves.places[i].name, leaves.tensors[i]);
  }
  eval();
}

CausalLMImpl::~CausalLMImpl() = default;

CausalLMOutput CausalLMImpl::forward(const CausalLMInput& input) {
  CausalState& state = *state_;
  state.restore_sharing();
  const ModelConfig& config = state.model->config;
  const TokenBatch batch = make_batch(input, config, state.model->weights.embedding.device());
  const Weights weights = state.differentiable();
  at::Tensor hidden = run_layers(state, weights, batch, is_training());
  hidden = hidden.reshape({-1, hidden.size(-1)});
  CausalLMOutput out;
  if (input.logits) {
    const at::Tensor rows =
        soft_cap(linear(hidden, weights.head, weights.head_scales, {}), config.logit_softcap);
    if (batch.targets.defined())
      out.loss = cross_entropy(rows, batch.targets, input.num_items_in_batch);
    out.logits = spread(rows, batch, input.ids);
  } else if (batch.targets.defined()) {
    at::Tensor targets = batch.targets;
    if (batch.counted.defined()) {
      hidden = hidden.index_select(0, batch.counted);
      targets = targets.index_select(0, batch.counted);
    }
    out.loss = linear_cross_entropy(hidden, weights.head, weights.head_scales, targets,
                                    config.logit_softcap, input.num_items_in_batch);
  }
  return out;
}

std::int64_t CausalLMImpl::label_count(const CausalLMInput& input) { return count_labels(input); }

void CausalLMImpl::gradient_checkpointing(bool enable) { state_->checkpointing = enable; }
bool CausalLMImpl::gradient_checkpointing() const noexcept { return state_->checkpointing; }
Model CausalLMImpl::model() const { return state_->handle; }
const ModelConfig& CausalLMImpl::config() const noexcept { return state_->model->config; }
c10::ScalarType CausalLMImpl::dtype() const noexcept { return state_->model->dtype; }

void CausalLMImpl::to(torch::Device device, torch::Dtype dtype, bool) {
  check_device(device);
  convert(*state_, dtype);
}
void CausalLMImpl::to(torch::Dtype dtype, bool) { convert(*state_, dtype); }
void CausalLMImpl::to(torch::Device device, bool) { check_device(device); }

void CausalLMImpl::pretty_print(std::ostream& stream) const {
  stream << "anyaccel::llm::CausalLM(model_type=" << config().model_type
         << ", layers=" << config().num_layers << ", hidden_size=" << config().hidden_size << ")";
}

}  // namespace anyaccel::llm
