#include "anyaccel/llm/lora.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/causal/adapter.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

namespace {

[[noreturn]] void reject_option(const std::string& what, std::string got, std::string want) {
  throw Error(ErrorCode::invalid_argument, "inject_adapter",
              {.what = what, .got = std::move(got), .want = std::move(want)});
}

AdapterState& adapter_of(const CausalLM& model, const char* where) {
  std::optional<AdapterState>& adapter = model->state().adapter;
  if (adapter) return *adapter;
  throw Error(ErrorCode::invalid_state, where,
              {.what = "the model has no adapter", .hint = "call inject_adapter() first"});
}

/// The last part of a module's name.
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// PEFT's default targets.
std::vector<std::string> usual_targets(const std::string& family) {
  if (family == "gpt2") return {"c_attn"};
  if (family == "phi3") return {"qkv_proj"};
  return {"q_proj", "v_proj"};
}

bool matches(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

std::vector<LinearModule> target_modules(const ModelConfig& config,
                                         const std::vector<std::string>& targets) {
  const std::vector<LinearModule> all = linear_modules(config);
  if (targets == std::vector<std::string>{"all-linear"}) return all;
  std::vector<bool> used(targets.size());
  std::vector<LinearModule> out;
  for (const LinearModule& module : all) {
    bool wanted = false;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (!matches(module.name, targets[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted) out.push_back(module);
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return out;
  const std::string target = targets[static_cast<std::size_t>(unused - used.begin())];
  std::vector<std::string> names;
  for (const LinearModule& module : all) {
    const std::string name = last_part(module.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string known = "all-linear";
  for (const std::string& name : names) known += ", " + name;
  reject_option("a target module is not a linear layer of the model that can have an adapter",
                quoted_text(target), known);
}

void check_config(const LoraConfig& config) {
  if (config.r < 1) reject_option("r is out of range", std::to_string(config.r), "at least 1");
  if (!std::isfinite(config.lora_alpha))
    reject_option("lora_alpha is out of range", std::to_string(config.lora_alpha), "a number");
  if (!(config.lora_dropout >= 0 && config.lora_dropout < 1))
    reject_option("lora_dropout is out of range", std::to_string(config.lora_dropout),
                  "a number in [0, 1)");
}

void freeze(CausalState& state, bool frozen) {
  for (Leaves& leaves : state.leaves) {
    for (at::Tensor& leaf : leaves.tensors) leaf.set_requires_grad(!frozen);
  }
}

/// Passes the adapters to the layers, or removes them.
void set_layers(CausalState& state, bool active) {
  auto& layers = state.model->weights.layers;
  const auto adapters = active ? state.adapter->by_layer(layers.size())
                               : std::vector<std::shared_ptr<const LayerAdapters>>(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].adapters = adapters[i];
  state.weights_replaced();
}

/// Adds `sign` times the adapters' products to the rows of a float matrix.
void add_products(at::Tensor matrix, const std::vector<Adapter>& adapters, double sign) {
  for (const Adapter& adapter : adapters) {
    const at::Tensor product = at::mm(adapter.b, adapter.a).mul_(sign * adapter.scale);
    matrix.narrow(0, adapter.begin, adapter.rows).add_(product.to(matrix.scalar_type()));
  }
}

/// Quantizes the sum of a quantized matrix and its adapters in the same format.
void merge_quantized(at::Tensor& weight, Scales& scales, const std::vector<Adapter>& adapters) {
  at::Tensor values = dequantize(weight, scales, 0, weight.size(0));
  add_products(values, adapters, 1);
  const int bits = weight.scalar_type() == c10::kChar ? 8 : 4;
  const QuantizedMatrix made =
      quantize(values.contiguous(), bits, values.size(1) / scales.scales.size(1));
  weight = made.weight;
  scales = made.scales;
}

}  // namespace

double AdapterState::scale() const {
  const auto rank = static_cast<double>(config.r);
  return config.lora_alpha / (config.use_rslora ? std::sqrt(rank) : rank);
}

std::vector<std::shared_ptr<const LayerAdapters>> AdapterState::by_layer(std::size_t layers) const {
  std::vector<std::shared_ptr<LayerAdapters>> made(layers);
  for (const AdaptedModule& adapted : modules) {
    const LinearModule& module = adapted.module;
    auto& layer = made[module.layer];
    if (!layer) layer = std::make_shared<LayerAdapters>();
    ((*layer).*module.place).push_back({module.begin, module.rows, adapted.a, adapted.b, scale()});
  }
  return {made.begin(), made.end()};
}

void use_adapter(CausalState& state) { set_layers(state, true); }

void add_adapter(CausalLM& model, const LoraConfig& config,
                 const std::vector<LinearModule>& modules) {
  CausalState& state = model->state();
  check_config(config);
  if (state.adapter)
    throw Error(
        ErrorCode::invalid_state, "inject_adapter",
        {.what = "the model already has an adapter", .hint = "call remove_adapter() first"});
  const c10::AutoGradMode no_gradient(false);
  const c10::ScalarType dtype = state.model->dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
  const auto options = state.model->weights.embedding.options().dtype(dtype).requires_grad(false);
  AdapterState made;
  made.config = config;
  HostRandom random(config.seed);
  for (const LinearModule& module : modules) {
    at::Tensor a = at::empty({config.r, module.inputs}, options);
    // As in PEFT: torch.nn.init.kaiming_uniform_ with a = sqrt(5).
    const double bound = 1 / std::sqrt(static_cast<double>(module.inputs));
    random.fill_uniform(a, -bound, bound);
    at::Tensor b = at::zeros({module.rows, config.r}, options);
    a.set_requires_grad(true);
    b.set_requires_grad(true);
    add_parameter(*model, state, module.name + ".lora_A.weight", a);
    add_parameter(*model, state, module.name + ".lora_B.weight", b);
    made.modules.push_back({module, a, b});
  }
  freeze(state, true);
  state.adapter = std::move(made);
  set_layers(state, true);
}

std::vector<std::string> inject_adapter(CausalLM& model, const LoraConfig& config) {
  LoraConfig full = config;
  const std::string& family = model->config().model_type;
  if (full.target_modules.empty()) full.target_modules = usual_targets(family);
  const std::vector<LinearModule> modules = target_modules(model->config(), full.target_modules);
  if (full.target_modules.front() == "all-linear") {
    // PEFT lists the modules too when it saves the adapter.
    full.target_modules.clear();
    for (const LinearModule& module : modules) {
      const std::string name = last_part(module.name);
      auto& names = full.target_modules;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  add_adapter(model, full, modules);
  std::vector<std::string> names;
  for (const LinearModule& module : modules) names.push_back(module.name);
  return names;
}

bool has_adapter(const CausalLM& model) { return model->state().adapter.has_value(); }

LoraConfig adapter_config(const CausalLM& model) {
  return adapter_of(model, "adapter_config").config;
}

void merge_adapter(CausalLM& model) {
  AdapterState& adapter = adapter_of(model, "merge_adapter");
  if (adapter.merged) return;
  CausalState& state = model->state();
  state.restore_sharing();
  const c10::AutoGradMode no_gradient(false);
  auto& layers = state.model->weights.layers;
  const auto adapters = adapter.by_layer(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (std::size_t k = 0; adapters[i] && k < std::size(kLayerMatrices); ++k) {
      const LayerMatrix& matrix = kLayerMatrices[k];
      const std::vector<Adapter>& own = (*adapters[i]).*matrix.place;
      at::Tensor& weight = layers[i].*matrix.weight;
      Scales& scales = layers[i].*matrix.scales;
      if (own.empty()) continue;
      if (!scales.scales.defined()) {
        add_products(weight, own, 1);
        continue;
      }
      adapter.kept[{i, k}] = {weight, scales};
      merge_quantized(weight, scales, own);
    }
  }
  adapter.merged = true;
  set_layers(state, false);
}

void unmerge_adapter(CausalLM& model) {
  AdapterState& adapter = adapter_of(model, "unmerge_adapter");
  if (!adapter.merged) return;
  CausalState& state = model->state();
  state.restore_sharing();
  const c10::AutoGradMode no_gradient(false);
  auto& layers = state.model->weights.layers;
  const auto adapters = adapter.by_layer(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (std::size_t k = 0; adapters[i] && k < std::size(kLayerMatrices); ++k) {
      const LayerMatrix& matrix = kLayerMatrices[k];
      at::Tensor& weight = layers[i].*matrix.weight;
      const auto kept = adapter.kept.find({i, k});
      if (kept == adapter.kept.end()) {
        if (weight.defined()) add_products(weight, (*adapters[i]).*matrix.place, -1);
        continue;
      }
      weight = kept->second.weight;
      layers[i].*matrix.scales = kept->second.scales;
    }
  }
  adapter.kept.clear();
  adapter.merged = false;
  set_layers(state, true);
}

bool adapter_merged(const CausalLM& model) { return adapter_of(model, "adapter_merged").merged; }

void remove_adapter(CausalLM& model) {
  AdapterState& adapter = adapter_of(model, "remove_adapter");
  CausalState& state = model->state();
  for (const AdaptedModule& adapted : adapter.modules) {
    const std::string& name = adapted.module.name;
    for (const char* part : {"lora_A", "lora_B"}) {
      state.nodes.at(name)->unregister_module(part);
      state.nodes.erase(name + "." + part);
    }
  }
  state.adapter.reset();
  set_layers(state, false);
  freeze(state, false);
}

}  // namespace anyaccel::llm
