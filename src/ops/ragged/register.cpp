// Registers torch.ops.anyaccel.ragged_*: schemas, kernels for tensors in host memory, and meta
// kernels.
#include "ops/ragged/batch.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void kv_rotary(const Tensor& cache, const Tensor& q, const Tensor& k, const Tensor& v,
               std::int64_t rotary_dim, double theta, const Tensor& metadata,
               const Tensor& sequences, const Tensor&, const Tensor& kv_ptrs) {
  if (!(theta > 0))
    fail_argument("kv_rotary_embeddings", "the RoPE base is out of range", std::to_string(theta),
                  "a positive number");
  keep_keys("kv_rotary_embeddings", cache, q, k, v, rotary_dim, theta, {}, metadata, sequences,
            kv_ptrs);
}

void kv_trained_rotary(const Tensor& cache, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& inv_freq, const Tensor& metadata, const Tensor& sequences,
                       const Tensor&, const Tensor& kv_ptrs) {
  constexpr const char* where = "kv_trained_rotary_embeddings";
  check_on_host(where, "the frequencies", inv_freq);
  keep_keys(where, cache, q, k, v, 2 * inv_freq.numel(), 1, inv_freq, metadata, sequences, kv_ptrs);
}

void kv_copy(const Tensor& cache, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& metadata, const Tensor& sequences, const Tensor&,
             const Tensor& kv_ptrs) {
  keep_keys("linear_kv_copy", cache, q, k, v, 0, 1, {}, metadata, sequences, kv_ptrs);
}

/// Meta kernel. The ops write to their arguments, so there are no shapes to compute.
template <typename... Arguments>
void nothing(Arguments...) {}

#define OP(name) "ragged_" name
#define BATCH "Tensor batch_metadata, Tensor seq_metadata, Tensor tokens_to_seq, Tensor kv_ptrs"

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      OP("embed(Tensor(a!) embedded_tokens, Tensor input_ids, Tensor embedding_weight, "
         "Tensor? position_embedding_weight, int pos_embed_offset, " BATCH ") -> ()"));
  m.def(
      OP("gather_for_logits(Tensor(a!) final_token_acts, Tensor all_acts, Tensor batch_metadata, "
         "Tensor seq_metadata) "
         "-> ()"));
  m.def(OP(
      "kv_rotary_embeddings(Tensor(a!) kv_cache, Tensor(b!) q, Tensor k, Tensor v, int rotary_dim, "
      "float theta_base, " BATCH ") -> ()"));
  m.def(
      OP("kv_trained_rotary_embeddings(Tensor(a!) kv_cache, Tensor(b!) q, Tensor k, Tensor v, "
         "Tensor inv_freq, " BATCH ") -> ()"));
  m.def(OP("linear_kv_copy(Tensor(a!) kv_cache, Tensor q, Tensor k, Tensor v, " BATCH ") -> ()"));
  m.def(
      OP("build_atoms(Tensor(a!) atoms, Tensor batch_metadata, Tensor seq_metadata, Tensor "
         "kv_ptrs, int q_block_size, "
         "int kv_block_size) -> int"));
  m.def(
      OP("attention(Tensor(a!) out, Tensor q, Tensor k, Tensor v, Tensor atoms, float "
         "softmax_scale, bool is_causal) "
         "-> ()"));
  m.def(
      OP("top_k_gating(Tensor(a!) expert_counts, Tensor(b!) scores, Tensor(c!) assignments, "
         "Tensor(d!) offsets, "
         "Tensor logits, Tensor batch_metadata) -> ()"));
  m.def(OP(
      "moe_scatter(Tensor(a!) moe_input, Tensor(b!) expert_count_cumsums, Tensor(c!) mapped_slots, "
      "Tensor activations, Tensor expert_counts, Tensor assignments, Tensor offsets) -> ()"));
  m.def(OP(
      "moe_gather(Tensor(a!) layer_output, Tensor moe_output, Tensor scores, Tensor mapped_slots, "
      "Tensor(b!) expert_count, bool normalize_scales) -> ()"));
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl(OP("embed"), ragged_embed);
  m.impl(OP("gather_for_logits"), gather_for_logits);
  m.impl(OP("kv_rotary_embeddings"), kv_rotary);
  m.impl(OP("kv_trained_rotary_embeddings"), kv_trained_rotary);
  m.impl(OP("linear_kv_copy"), kv_copy);
  m.impl(OP("build_atoms"), build_atoms);
  m.impl(OP("attention"), attend_atoms);
  m.impl(OP("top_k_gating"), top_k_gating);
  m.impl(OP("moe_scatter"), moe_scatter);
  m.impl(OP("moe_gather"), moe_gather);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  using T = const Tensor&;
  using Int = std::int64_t;
  m.impl(OP("embed"), nothing<T, T, T, const std::optional<Tensor>&, Int, T, T, T, T>);
  m.impl(OP("gather_for_logits"), nothing<T, T, T, T>);
  m.impl(OP("kv_rotary_embeddings"), nothing<T, T, T, T, Int, double, T, T, T, T>);
  m.impl(OP("kv_trained_rotary_embeddings"), nothing<T, T, T, T, T, T, T, T, T>);
  m.impl(OP("linear_kv_copy"), nothing<T, T, T, T, T, T, T, T>);
  m.impl(OP("attention"), nothing<T, T, T, T, T, double, bool>);
  m.impl(OP("top_k_gating"), nothing<T, T, T, T, T, T>);
  m.impl(OP("moe_scatter"), nothing<T, T, T, T, T, T, T>);
  m.impl(OP("moe_gather"), nothing<T, T, T, T, T, bool>);
}

}  // namespace
}  // namespace anyaccel::ops
