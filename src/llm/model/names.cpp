// Names of tensors in Hugging Face checkpoints.
#include "llm/checkpoint/checkpoint.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

namespace {

/// Visits the rows of a fused matrix or bias under the names of its parts. If there is no fused
/// matrix, visits the separate parts in `apart`.
void add_parts(const TensorVisitor& out, const std::string& prefix, const at::Tensor& fused,
               const char* suffix,
               std::initializer_list<std::pair<const char*, std::int64_t>> parts,
               const std::vector<at::Tensor>& apart = {}) {
  if (!fused.defined()) {
    auto part = apart.begin();
    if (part != apart.end())
      for (const auto& [name, rows] : parts) out(prefix + name + suffix, (part++)->detach());
    return;
  }
  std::int64_t begin = 0;
  for (const auto& [name, rows] : parts) {
    out(prefix + name + suffix, fused.detach().narrow(0, begin, rows));
    begin += rows;
  }
}

/// Visits each expert's matrices. Mixtral's names differ from those of other families.
void visit_experts(const TensorVisitor& out, const std::string& prefix, const LayerWeights& layer,
                   const ModelConfig& config) {
  const bool numbered = config.model_type == "mixtral";
  const std::string block = prefix + (numbered ? "block_sparse_moe." : "mlp.");
  out(block + "gate.weight", layer.router.detach());
  for (std::int64_t i = 0; i < config.num_experts; ++i) {
    const std::string expert = block + "experts." + std::to_string(i) + ".";
    add_parts(out, expert, layer.expert_gate_up.select(0, i), ".weight",
              {{numbered ? "w1" : "gate_proj", config.expert_size},
               {numbered ? "w3" : "up_proj", config.expert_size}});
    add_parts(out, expert, layer.expert_down.select(0, i), ".weight",
              {{numbered ? "w2" : "down_proj", config.hidden_size}});
  }
}

/// Visits a tensor, if the model has it.
void add(const TensorVisitor& out, const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) out(name, tensor.detach());
}

/// Visits a matrix that is stored transposed: GPT-2 stores one row per input.
void add_turned(const TensorVisitor& out, const std::string& name, const at::Tensor& matrix,
                const at::Tensor& bias) {
  out(name + ".weight", matrix.detach().t());
  add(out, name + ".bias", bias);
}

/// Visits a weight and its bias.
void add_pair(const TensorVisitor& out, const std::string& name, const at::Tensor& weight,
              const at::Tensor& bias) {
  add(out, name + ".weight", weight);
  add(out, name + ".bias", bias);
}

void visit_gpt2(const Weights& weights, const TensorVisitor& out) {
  add(out, "transformer.wte.weight", weights.embedding);
  add(out, "transformer.wpe.weight", weights.positions);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = "transformer.h." + std::to_string(i) + ".";
    add_pair(out, prefix + "ln_1", layer.input_norm, layer.input_norm_bias);
    add_turned(out, prefix + "attn.c_attn", layer.qkv, layer.qkv_bias);
    add_turned(out, prefix + "attn.c_proj", layer.output, layer.output_bias);
    add_pair(out, prefix + "ln_2", layer.post_norm, layer.post_norm_bias);
    add_turned(out, prefix + "mlp.c_fc", layer.gate_up, layer.gate_up_bias);
    add_turned(out, prefix + "mlp.c_proj", layer.down, layer.down_bias);
  }
  add_pair(out, "transformer.ln_f", weights.norm, weights.norm_bias);
}

void visit_opt(const Weights& weights, const ModelConfig& config, const TensorVisitor& out) {
  const std::string all = "model.decoder.";
  const std::int64_t wide = config.num_heads * config.head_dim;
  add(out, all + "embed_tokens.weight", weights.embedding);
  add(out, all + "embed_positions.weight", weights.positions);
  add(out, all + "project_in.weight", weights.project_in);
  add(out, all + "project_out.weight", weights.project_out);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = all + "layers." + std::to_string(i) + ".";
    add_pair(out, prefix + "self_attn_layer_norm", layer.input_norm, layer.input_norm_bias);
    for (const auto& [qkv, suffix] :
         {std::pair{&layer.qkv, ".weight"}, std::pair{&layer.qkv_bias, ".bias"}}) {
      add_parts(out, prefix + "self_attn.", *qkv, suffix,
                {{"q_proj", wide}, {"k_proj", wide}, {"v_proj", wide}},
                qkv == &layer.qkv ? layer.qkv_parts : std::vector<at::Tensor>());
    }
    add_pair(out, prefix + "self_attn.out_proj", layer.output, layer.output_bias);
    add_pair(out, prefix + "final_layer_norm", layer.post_norm, layer.post_norm_bias);
    add_pair(out, prefix + "fc1", layer.gate_up, layer.gate_up_bias);
    add_pair(out, prefix + "fc2", layer.down, layer.down_bias);
  }
  add_pair(out, all + "final_layer_norm", weights.norm, weights.norm_bias);
}

void visit_llama(const Weights& weights, const ModelConfig& config, const TensorVisitor& out) {
  const std::int64_t query = config.num_heads * config.head_dim;
  const std::int64_t key = config.num_kv_heads * config.head_dim;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  out("model.embed_tokens.weight", weights.embedding.detach());
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    out(prefix + "input_layernorm.weight", layer.input_norm.detach());
    // In models with norms before and after each block, this name belongs to the norm after
    // attention.
    const std::string behind = prefix + "post_attention_layernorm.weight";
    if (config.norms_after) {
      out(behind, layer.after_attention.detach());
      out(prefix + "pre_feedforward_layernorm.weight", layer.post_norm.detach());
      out(prefix + "post_feedforward_layernorm.weight", layer.after_feed_forward.detach());
    } else {
      out(behind, layer.post_norm.detach());
    }
    add_parts(out, prefix + "self_attn.", layer.query_norm, ".weight",
              {{"q_norm", config.head_dim}});
    add_parts(out, prefix + "self_attn.", layer.key_norm, ".weight", {{"k_norm", config.head_dim}});
    const std::tuple<const at::Tensor*, const at::Tensor*, const char*> kinds[] = {
        {&layer.qkv, &layer.output, ".weight"}, {&layer.qkv_bias, &layer.output_bias, ".bias"}};
    for (const auto& [qkv, output, suffix] : kinds) {
      if (config.fused_weights)
        add_parts(out, prefix + "self_attn.", *qkv, suffix, {{"qkv_proj", query + 2 * key}});
      else
        add_parts(out, prefix + "self_attn.", *qkv, suffix,
                  {{"q_proj", query}, {"k_proj", key}, {"v_proj", key}},
                  qkv == &layer.qkv ? layer.qkv_parts : std::vector<at::Tensor>());
      add_parts(out, prefix + "self_attn.", *output, suffix, {{"o_proj", hidden}});
    }
    if (layer.router.defined()) visit_experts(out, prefix, layer, config);
    const std::tuple<const at::Tensor*, const at::Tensor*, const char*> inner_kinds[] = {
        {&layer.gate_up, &layer.down, ".weight"}, {&layer.gate_up_bias, &layer.down_bias, ".bias"}};
    for (const auto& [gate_up, down, suffix] : inner_kinds) {
      if (config.fused_weights)
        add_parts(out, prefix + "mlp.", *gate_up, suffix, {{"gate_up_proj", 2 * inner}});
      else
        add_parts(out, prefix + "mlp.", *gate_up, suffix,
                  {{"gate_proj", inner}, {"up_proj", inner}},
                  gate_up == &layer.gate_up ? layer.gate_up_parts : std::vector<at::Tensor>());
      add_parts(out, prefix + "mlp.", *down, suffix, {{"down_proj", hidden}});
    }
  }
  out("model.norm.weight", weights.norm.detach());
}

}  // namespace

void visit_tensors(const Weights& weights, const ModelConfig& config, const TensorVisitor& out) {
  if (config.model_type == "gpt2") {
    visit_gpt2(weights, out);
  } else if (config.model_type == "opt") {
    visit_opt(weights, config, out);
  } else {
    visit_llama(weights, config, out);
  }
  if (!config.tie_word_embeddings) out("lm_head.weight", weights.head.detach());
}

std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors(const Weights& weights,
                                                                   const ModelConfig& config) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    out.emplace_back(name, tensor);
  });
  return out;
}

std::string stored_name(const Checkpoint& checkpoint, const std::string& name) {
  const auto dot = name.find('.');
  if (checkpoint.contains(name) || dot == std::string::npos) return name;
  const std::string bare = name.substr(dot + 1);
  return checkpoint.contains(bare) ? bare : name;
}

}  // namespace anyaccel::llm
