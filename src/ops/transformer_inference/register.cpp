// Registers torch.ops.anyaccel.transformer_inference_*. Ops that are composed of torch operations
// do not need separate kernels, because torch provides them for every device, meta tensors and
// autograd.
#include "ATen/ops/constant_pad_nd.h"
#include "ATen/ops/matmul.h"
#include "ops/shared/host_tensors.h"
#include "ops/transformer_inference/context.h"
#include "ops/transformer_inference/workspace.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using std::int64_t;
using Pair = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor bias_activate(const Tensor& x, const OptionalTensor& bias, int64_t activation) {
  return activate("bias_activation", x, bias, static_cast<Activation>(activation));
}

Tensor bias_add(const Tensor& x, const Tensor& bias) { return x + bias; }

Tensor softmax(const Tensor& scores, const OptionalTensor& mask, const OptionalTensor& alibi,
               bool triangular, bool local_attention, int64_t window_size, double layer_scale,
               int64_t head_offset, int64_t mp_size) {
  return masked_softmax(scores, mask, alibi, {triangular, local_attention, window_size},
                        layer_scale, head_offset, mp_size);
}

Pair qkv_gemm(const Tensor& input, const Tensor& weight, const Tensor& q_scale,
              const OptionalTensor& bias, const Tensor& gamma, const OptionalTensor& beta,
              double epsilon, bool q_int8, bool transposed) {
  const Tensor norm = beta && beta->defined() ? layer_norm(input, gamma, *beta, epsilon)
                                              : rms_norm(input, gamma, epsilon);
  return {product("qkv_gemm", norm, {weight, q_scale, q_int8, transposed}, bias), norm};
}

Pair mlp_gemm(const Tensor& input, const Tensor& residual, const OptionalTensor& input_bias,
              const Tensor& weight_interm, const Tensor& weight_out, const OptionalTensor& bias,
              const Tensor& gamma, const Tensor& beta, double epsilon, bool mlp_after_attn,
              const Tensor& q_scale, const Tensor& q_scale1, bool q_int8, int64_t activation,
              bool transposed) {
  constexpr const char* where = "mlp_gemm";
  const Tensor norm = mlp_after_attn
                          ? layer_norm_residual(input, input_bias, residual, gamma, beta, epsilon)
                          : layer_norm(residual, gamma, beta, epsilon);
  const Tensor inner = product(where, norm, {weight_interm, q_scale, q_int8, transposed});
  const Tensor active = activate(where, inner, bias, static_cast<Activation>(activation));
  return {product(where, active, {weight_out, q_scale1, q_int8, transposed}), norm};
}

Pair rms_mlp_gemm(const Tensor& input, const Tensor& residual, const Tensor& weight_interm,
                  const Tensor& weight_out, const Tensor& gamma, double epsilon,
                  const Tensor& q_scale, const Tensor& q_scale1, bool q_int8, int64_t activation,
                  bool transposed) {
  constexpr const char* where = "rms_mlp_gemm";
  const auto [norm, sum] = pre_rms_norm(input, residual, gamma, epsilon);
  const Tensor inner = product(where, norm, {weight_interm, q_scale, q_int8, transposed});
  const Tensor active = activate(where, inner, {}, static_cast<Activation>(activation));
  return {product(where, active, {weight_out, q_scale1, q_int8, transposed}), sum};
}

Tensor vector_matmul(const Tensor& input, const Tensor& weight, const Tensor& q_scale, bool q_int8,
                     bool transposed) {
  return product("vector_matmul", input, {weight, q_scale, q_int8, transposed});
}

Tensor fused_gemm_gelu(const Tensor& input, const Tensor& weight, const Tensor& weight_scale,
                       const OptionalTensor& bias, const Tensor& weight_out,
                       const Tensor& weight_out_scale, bool q_int8, bool transposed) {
  constexpr const char* where = "fused_gemm_gelu";
  const Tensor inner = product(where, input, {weight, weight_scale, q_int8, transposed});
  return product(where, activate(where, inner, bias, Activation::gelu),
                 {weight_out, weight_out_scale, q_int8, transposed});
}

void residual_add_bias(const Tensor& hidden_state, const Tensor& residual,
                       const Tensor& attention_output, const OptionalTensor& attention_bias,
                       const OptionalTensor& final_bias, int64_t mp_size, bool mlp_after_attn,
                       bool add_bias, bool preln) {
  if (mp_size < 1)
    fail_argument("residual_add_bias", "mp_size is out of range", std::to_string(mp_size),
                  "1 or more");
  const auto type = hidden_state.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const double part = 1.0 / static_cast<double>(mp_size);
  Tensor sum = residual.to(type);
  const auto add = [&](const OptionalTensor& more) {
    if (more && more->defined()) sum = sum + *more;
  };
  if (!mlp_after_attn) {
    if (add_bias) add(attention_bias);
    add(final_bias);
    sum = sum * part + attention_output + hidden_state;
  } else if (preln) {
    add(attention_output);
    add(final_bias);
    add(attention_bias);
    sum = sum * part + hidden_state;
  } else {
    add(hidden_state);
    add(final_bias);
  }
  residual.copy_(sum);
}

void vector_add(const Tensor& a, const Tensor& b, double gamma) {
  const auto type = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  a.copy_(a.to(type) * gamma + b);
}

Tensor bias_residual(const Tensor& output, const Tensor& residual, const Tensor& bias) {
  const auto type = output.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sum = output.to(type) + residual;
  return (bias.sym_numel() > 1 ? sum + bias : sum).to(output.scalar_type());
}

void moe_res_matmul(const Tensor& residual, const Tensor& coef, const Tensor& output) {
  constexpr const char* where = "moe_res_matmul";
  const c10::SymInt hidden = output.sym_size(-1);
  Tensor first, second;
  if (coef.sym_numel() == 2 * hidden) {
    const Tensor halves = coef.reshape_symint({2, hidden});
    first = halves[0], second = halves[1];
  } else if (coef.dim() == output.dim() && coef.sym_size(-1) == 2) {
    first = coef.slice(-1, 0, 1), second = coef.slice(-1, 1, 2);
  } else {
    fail_argument(where, "the coefficients have the wrong shape", words(coef),
                  c10::str("[.., ", 2 * hidden, "], or two for each token of ", words(output)));
  }
  const auto type = output.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  output.copy_(residual.to(type) * first + output.to(type) * second);
}

Tensor einsum_sec_sm_ecm(const Tensor& q, const Tensor& w) {
  if (q.dim() != 3 || w.dim() != 2 || q.sym_size(0) != w.sym_size(0))
    fail_argument("einsum_sec_sm_ecm", "the shapes of the tensors do not match",
                  c10::str(words(q), " and ", words(w)),
                  "[tokens, experts, capacity] and [tokens, channels]");
  return at::matmul(q.permute({1, 2, 0}), w);
}

c10::SymInt padded_head_size(const c10::SymInt& size) {
  if (size >= 128) return size;
  return size < 32 ? 32 : size < 64 ? 64 : 128;
}

constexpr int64_t padded_keys = 128;  // size that DeepSpeed's attention for diffusers requires

/// Zero-pads a tensor at the end to [batch, heads, tokens, dim].
Tensor padded(const char* where, const Tensor& x, const c10::SymInt& tokens,
              const c10::SymInt& dim) {
  if (x.dim() != 4 || x.sym_size(2) > tokens || x.sym_size(3) > dim)
    fail_argument(where, "the heads have the wrong shape or are too large", words(x),
                  c10::str("[batch, heads, at most ", tokens, ", at most ", dim, "]"));
  return at::constant_pad_nd_symint(x, {0, dim - x.sym_size(3), 0, tokens - x.sym_size(2)}, 0)
      .contiguous();
}

Three add_padding(const Tensor& query, const Tensor& key, const Tensor& value) {
  constexpr const char* where = "add_padding";
  if (query.dim() != 4)
    fail_argument(where, "the query has the wrong shape", words(query),
                  "[batch, heads, tokens, head dim]");
  const c10::SymInt dim = padded_head_size(query.sym_size(3));
  return {padded(where, query, query.sym_size(2), dim), padded(where, key, padded_keys, dim),
          padded(where, value, padded_keys, dim)};
}

Three pad_transform(const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
                    bool add_padding) {
  constexpr const char* where = "pad_transform";
  const auto head = [&](const Tensor& x, bool of_keys) {
    if (x.dim() != 3 || heads < 1 || x.sym_size(2) % heads != 0)
      fail_argument(where, "the tensor has the wrong shape", words(x),
                    c10::str("[batch, tokens, ", heads, " heads * head dim]"));
    const Tensor apart =
        x.reshape_symint({x.sym_size(0), x.sym_size(1), heads, x.sym_size(2) / heads})
            .transpose(1, 2);
    const c10::SymInt dim = add_padding ? padded_head_size(apart.sym_size(3)) : apart.sym_size(3);
    return padded(where, apart,
                  add_padding && of_keys ? c10::SymInt(padded_keys) : apart.sym_size(2), dim);
  };
  return {head(query, false), head(key, true), head(value, true)};
}

Tensor linear_layer(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                    bool do_flash_attn, int64_t num_heads, bool transposed) {
  constexpr const char* where = "linear_layer";
  const Tensor out = product(where, input, {weight, weight, false, transposed}, bias);
  if (!do_flash_attn) return out;
  if (out.dim() != 3 || num_heads < 1 || out.sym_size(2) % (3 * num_heads) != 0)
    fail_argument(where, "the output does not split into query, key and value heads", words(out),
                  c10::str("[batch, tokens, 3 * ", num_heads, " heads]"));
  const c10::SymInt dim = out.sym_size(2) / (3 * num_heads),
                    wide = dim % 64 == 0 || dim == 32 ? dim : padded_head_size(dim);
  const Tensor apart = out.view_symint({out.sym_size(0), out.sym_size(1), 3, num_heads, dim})
                           .permute({2, 0, 3, 1, 4});
  return at::constant_pad_nd_symint(apart, {0, wide - dim}, 0).contiguous();
}

template <Three (*of)(const ContextArguments&)>
Three context(const Tensor& query_key_value, const OptionalTensor& attn_mask, int64_t rotary_dim,
              bool rotate_half, bool rotate_every_two, int64_t heads, int64_t num_kv,
              double norm_factor, bool triangular, bool local_attention, int64_t window_size,
              bool no_masking, int64_t layer_id, int64_t num_layers, const OptionalTensor& alibi,
              double rope_theta) {
  return of({query_key_value,
             attn_mask,
             {rotary_dim, rotate_half, rotate_every_two, rope_theta},
             heads,
             num_kv,
             norm_factor,
             {triangular, local_attention, window_size},
             no_masking,
             layer_id,
             num_layers,
             alibi});
}

Pair rotary_cpu(const Tensor& query, const Tensor& key, int64_t rotary_dim, int64_t offset,
                int64_t num_heads, bool rotate_half, double rope_theta) {
  return rotated(query, key, {rotary_dim, rotate_half, !rotate_half, rope_theta}, offset,
                 num_heads);
}

Pair rotary_meta(const Tensor& query, const Tensor& key, int64_t, int64_t, int64_t, bool, double) {
  return {query.new_empty_symint(query.sym_sizes()), key.new_empty_symint(key.sym_sizes())};
}

void allocate_workspace(int64_t num_layers, int64_t batch_size, int64_t max_out_tokens) {
  const std::lock_guard lock(Workspace::instance().mutex());
  Workspace::instance().allocate(num_layers, batch_size, max_out_tokens);
}

void release_workspace() {
  const std::lock_guard lock(Workspace::instance().mutex());
  Workspace::instance().release();
}

void reset_cache() {
  const std::lock_guard lock(Workspace::instance().mutex());
  Workspace::instance().set_tokens(1);
}

#define OP(name) "transformer_inference_" name

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(OP("layer_norm(Tensor input, Tensor gamma, Tensor beta, float epsilon) -> Tensor"),
        layer_norm);
  m.def(OP("layer_norm_residual(Tensor input, Tensor? bias, Tensor residual, Tensor gamma, Tensor "
           "beta, float epsilon) "
           "-> Tensor"),
        layer_norm_residual);
  m.def(OP("layer_norm_residual_store(Tensor input, Tensor? bias, Tensor residual, Tensor gamma, "
           "Tensor beta, "
           "float epsilon) -> (Tensor, Tensor)"),
        layer_norm_residual_store);
  m.def(OP("rms_norm(Tensor input, Tensor gamma, float epsilon) -> Tensor"), rms_norm);
  m.def(OP("pre_rms_norm(Tensor input, Tensor residual, Tensor gamma, float epsilon) -> (Tensor, "
           "Tensor)"),
        pre_rms_norm);
  m.def(OP("dequantize(Tensor weight, Tensor scale, int groups, ScalarType dtype) -> Tensor"),
        dequantize);
  m.def(OP("bias_activation(Tensor input, Tensor? bias, int activation) -> Tensor"), bias_activate);
  m.def(OP("bias_add(Tensor input, Tensor bias) -> Tensor"), bias_add);
  m.def(OP("softmax(Tensor attn_scores, Tensor? attn_mask, Tensor? alibi, bool triangular, bool "
           "local_attention, "
           "int window_size, float layer_scale, int head_offset, int mp_size) -> Tensor"),
        softmax);
  m.def(OP("qkv_gemm(Tensor input, Tensor weight, Tensor q_scale, Tensor? bias, Tensor gamma, "
           "Tensor? beta, "
           "float epsilon, bool q_int8, bool transposed_mode) -> (Tensor, Tensor)"),
        qkv_gemm);
  m.def(
      OP("mlp_gemm(Tensor input, Tensor residual, Tensor? input_bias, Tensor weight_interm, Tensor "
         "weight_out, "
         "Tensor? bias, Tensor gamma, Tensor beta, float epsilon, bool mlp_after_attn, Tensor "
         "q_scale, "
         "Tensor q_scale1, bool q_int8, int activation, bool transposed_mode) -> (Tensor, Tensor)"),
      mlp_gemm);
  m.def(OP("rms_mlp_gemm(Tensor input, Tensor residual, Tensor weight_interm, Tensor weight_out, "
           "Tensor gamma, "
           "float epsilon, Tensor q_scale, Tensor q_scale1, bool q_int8, int activation, bool "
           "transposed_mode) "
           "-> (Tensor, Tensor)"),
        rms_mlp_gemm);
  m.def(OP("vector_matmul(Tensor input, Tensor weight, Tensor q_scale, bool q_int8, bool "
           "transposed_mode) -> Tensor"),
        vector_matmul);
  m.def(OP("fused_gemm_gelu(Tensor input, Tensor weight, Tensor weight_scale, Tensor? bias, Tensor "
           "weight_out, "
           "Tensor weight_out_scale, bool q_int8, bool transposed_mode) -> Tensor"),
        fused_gemm_gelu);
  m.def(OP("linear_layer(Tensor input, Tensor weight, Tensor? bias, bool do_flash_attn, int "
           "num_heads, "
           "bool transposed_mode) -> Tensor"),
        linear_layer);
  m.def(OP("residual_add_bias_(Tensor hidden_state, Tensor(a!) residual, Tensor attention_output, "
           "Tensor? attention_bias, Tensor? final_bias, int mp_size, bool mlp_after_attn, bool "
           "add_bias, "
           "bool pre_layer_norm) -> ()"),
        residual_add_bias);
  m.def(OP("vector_add_(Tensor(a!) a, Tensor b, float gamma) -> ()"), vector_add);
  m.def(OP("bias_residual(Tensor output, Tensor residual, Tensor bias) -> Tensor"), bias_residual);
  m.def(OP("moe_res_matmul_(Tensor residual, Tensor coef, Tensor(a!) output) -> ()"),
        moe_res_matmul);
  m.def(OP("einsum_sec_sm_ecm(Tensor q, Tensor w) -> Tensor"), einsum_sec_sm_ecm);
  m.def(OP("add_padding(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor, Tensor)"),
        add_padding);
  m.def(OP("pad_transform(Tensor query, Tensor key, Tensor value, int heads, bool add_padding) "
           "-> (Tensor, Tensor, Tensor)"),
        pad_transform);
  m.def(
      OP("softmax_context(Tensor query_key_value, Tensor? attn_mask, int rotary_dim, bool "
         "rotate_half, "
         "bool rotate_every_two, int heads, int num_kv, float norm_factor, bool triangular, bool "
         "local_attention, "
         "int window_size, bool no_masking, int layer_id, int num_layers, Tensor? alibi, float "
         "rope_theta) "
         "-> (Tensor, Tensor, Tensor)"));
  m.def(
      OP("apply_rotary_pos_emb(Tensor query, Tensor key, int rotary_dim, int offset, int "
         "num_heads, bool rotate_half, "
         "float rope_theta) -> (Tensor, Tensor)"));
  m.def(OP("allocate_workspace(int num_layers, int batch_size, int max_out_tokens) -> ()"),
        allocate_workspace);
  m.def(OP("release_workspace() -> ()"), release_workspace);
  m.def(OP("reset_cache() -> ()"), reset_cache);
  m.def(OP("repeat_kv_cache(int source_batch_size, int repeats, ScalarType dtype) -> Tensor[]"),
        repeat_cache);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) {
  m.impl(OP("softmax_context"), context<softmax_context>);
  m.impl(OP("apply_rotary_pos_emb"), rotary_cpu);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl(OP("softmax_context"), context<softmax_context_shapes>);
  m.impl(OP("apply_rotary_pos_emb"), rotary_meta);
}

}  // namespace
}  // namespace anyaccel::ops
