#include "ops/transformer_inference/context.h"

#include <algorithm>

#include "ATen/Dispatch.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "ops/shared/empty.h"
#include "ops/shared/host_tensors.h"
#include "ops/shared/tasks.h"
#include "ops/transformer_inference/workspace.h"

namespace anyaccel::ops {
namespace {

void check_rotation(const char* where, const Rotation& rotation, std::int64_t dim) {
  if (rotation.dims > dim || (rotation.dims > 0 && rotation.dims % 2 != 0))
    fail_argument(where, "the number of rotary dimensions is out of range",
                  std::to_string(rotation.dims), c10::str("an even number, at most ", dim));
  if (rotation.dims > 0 && !(rotation.theta > 0))
    fail_argument(where, "the RoPE base is out of range", std::to_string(rotation.theta),
                  "a positive number");
}

/// Copies the elements of one head, and rotates them unless `cosines` is null.
template <typename T>
void move_head(const T* from, T* to, std::int64_t dim, const Rotation& rotation,
               const float* cosines, const float* sines) {
  std::int64_t done = 0;
  if (cosines && rotation.dims > 0 && (rotation.half || rotation.every_two)) {
    const std::int64_t half = rotation.dims / 2, apart = rotation.half ? half : 1,
                       step = rotation.half ? 1 : 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const float x = static_cast<float>(from[i * step]),
                  y = static_cast<float>(from[i * step + apart]);
      to[i * step] = static_cast<T>(x * cosines[i] - y * sines[i]);
      to[i * step + apart] = static_cast<T>(y * cosines[i] + x * sines[i]);
    }
    done = rotation.dims;
  }
  std::copy(from + done, from + dim, to + done);
}

struct Heads {
  std::int64_t batch, tokens, heads, kv_heads, dim, first;
  Rotation rotation;
  const RotationTables* tables;
};

/// Copies queries to [batch, heads, tokens, dim], and copies keys and values to their positions in
/// the KV cache.
template <typename T>
void part_heads(const Heads& h, const T* from, T* query, const Tensor& keys, const Tensor& values) {
  const std::int64_t row = (h.heads + 2 * h.kv_heads) * h.dim, half = h.rotation.dims / 2;
  T *const key = static_cast<T*>(keys.data_ptr()), *const value =
                                                       static_cast<T*>(values.data_ptr());
  const std::int64_t most = keys.size(2);
  const auto put = [&](std::int64_t at) {
    const std::int64_t entry = at / h.tokens, token = at % h.tokens, place = h.first + token;
    const float* cosines = h.rotation.dims > 0 ? h.tables->cosines.data() + place * half : nullptr;
    const float* sines = h.rotation.dims > 0 ? h.tables->sines.data() + place * half : nullptr;
    const T* head = from + at * row;
    for (std::int64_t i = 0; i < h.heads; ++i, head += h.dim)
      move_head(head, query + ((entry * h.heads + i) * h.tokens + token) * h.dim, h.dim, h.rotation,
                cosines, sines);
    for (std::int64_t i = 0; i < h.kv_heads; ++i, head += h.dim)
      move_head(head, key + ((entry * h.kv_heads + i) * most + place) * h.dim, h.dim, h.rotation,
                cosines, sines);
    for (std::int64_t i = 0; i < h.kv_heads; ++i, head += h.dim)
      std::copy(head, head + h.dim, value + ((entry * h.kv_heads + i) * most + place) * h.dim);
  };
  const std::int64_t rows = h.batch * h.tokens;
  parallel_elements(
      &rows, 1, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, row)),
      [&](std::size_t, std::int64_t begin, std::int64_t end) {
        for (; begin < end; ++begin) put(begin);
      },
      1);
}

Heads heads_of(const ContextArguments& g) {
  constexpr const char* where = "softmax_context";
  const Tensor& x = g.query_key_value;
  const std::int64_t kv_heads = g.num_kv > 0 ? g.num_kv : g.heads, all = g.heads + 2 * kv_heads;
  if (x.dim() != 3 || g.heads < 1 || x.size(2) % all != 0 || g.heads % kv_heads != 0)
    fail_argument(where, "queries, keys and values have the wrong shape",
                  c10::str(words(x), " for ", g.heads, " heads and ", kv_heads, " key heads"),
                  "[batch, tokens, (heads + 2 * key heads) * head dim], and heads a multiple of "
                  "key heads");
  element_of(where, "query_key_value", x);
  check_rotation(where, g.rotation, x.size(2) / all);
  return {x.size(0), x.size(1), g.heads, kv_heads, x.size(2) / all, 0, g.rotation, nullptr};
}

/// Returns the mask and bias for scaled_dot_product_attention(), or an undefined tensor if there
/// are none.
Tensor attention_bias(const ContextArguments& g, const Heads& h, std::int64_t keys,
                      const Tensor& query) {
  const Tensor bias =
      score_bias("softmax_context", query, {h.batch, h.heads, h.tokens, keys},
                 g.no_masking ? OptionalTensor() : g.attn_mask, g.alibi, g.hiding, 0, 1);
  return bias.defined() ? bias.to(query.scalar_type()) : bias;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> softmax_context(const ContextArguments& g) {
  constexpr const char* where = "softmax_context";
  Heads h = heads_of(g);
  check_on_host(where, "query_key_value", g.query_key_value);
  const Tensor x = g.query_key_value.contiguous();
  Workspace& workspace = Workspace::instance();
  const std::lock_guard lock(workspace.mutex());
  // Several tokens form a prompt. An encoder's pass has no past, so its tokens form a prompt even
  // if there is only one.
  const bool prompt = h.tokens != 1 || !g.hiding.triangular;
  if (prompt) workspace.set_tokens(h.tokens);
  const std::int64_t keys = workspace.tokens();
  if (!prompt && keys < 1)
    fail_argument(where, "the workspace contains no prompt", "no tokens",
                  "a prompt of one or more tokens, processed first");
  h.first = prompt ? 0 : keys - 1;
  if (h.rotation.dims > 0) workspace.rotation().reach(h.rotation.dims, h.rotation.theta, keys);
  h.tables = &workspace.rotation();
  const LayerCache& cache = workspace.layer(g.layer_id, {h.batch, h.kv_heads, keys, h.dim},
                                            x.options().requires_grad(false), prompt);
  const Tensor query = empty({h.batch, h.heads, h.tokens, h.dim}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "softmax_context", [&] {
        part_heads<scalar_t>(h, x.const_data_ptr<scalar_t>(), query.mutable_data_ptr<scalar_t>(),
                             cache.keys, cache.values);
      });
  if (g.layer_id == g.num_layers - 1) workspace.set_tokens(keys + 1);
  const auto so_far = [&](const Tensor& all) { return all.slice(0, 0, h.batch).slice(2, 0, keys); };
  const Tensor key = so_far(cache.keys), value = so_far(cache.values);
  Tensor out;
  if (query.numel() == 0) {
    out = at::empty_like(query);
  } else {
    const bool causal_alone = g.hiding.triangular && !g.hiding.local_attention &&
                              !is_there(g.alibi) && (g.no_masking || !is_there(g.attn_mask));
    const Tensor bias = causal_alone ? Tensor() : attention_bias(g, h, keys, query);
    out = at::scaled_dot_product_attention(
        query, key, value, bias.defined() ? std::optional(bias) : std::nullopt, 0.0,
        causal_alone && h.tokens > 1, g.norm_factor * g.norm_factor, h.kv_heads != h.heads);
  }
  return {out.transpose(1, 2).reshape({h.batch, h.tokens, h.heads * h.dim}), key, value};
}

std::tuple<Tensor, Tensor, Tensor> softmax_context_shapes(const ContextArguments& g) {
  const Tensor& x = g.query_key_value;
  const std::int64_t kv_heads = g.num_kv > 0 ? g.num_kv : g.heads;
  const auto batch = x.sym_size(0), tokens = x.sym_size(1),
             dim = x.sym_size(2) / (g.heads + 2 * kv_heads);
  const std::lock_guard lock(Workspace::instance().mutex());
  // For a token after a prompt, the number of keys is stored only in the workspace.
  const auto keys =
      tokens != 1 || !g.hiding.triangular ? tokens : c10::SymInt(Workspace::instance().tokens());
  const std::int64_t most = Workspace::instance().max_tokens();
  const auto cache = [&] {
    return x.new_empty_symint({batch, kv_heads, most ? c10::SymInt(most) : keys, dim})
        .slice_symint(2, 0, keys);
  };
  return {x.new_empty_symint({batch, tokens, g.heads * dim}), cache(), cache()};
}

std::tuple<Tensor, Tensor> rotated(const Tensor& query, const Tensor& key, const Rotation& rotation,
                                   std::int64_t offset, std::int64_t heads) {
  constexpr const char* where = "apply_rotary_pos_emb";
  if (query.dim() != 3 || heads < 1 || query.size(2) % heads != 0 || query.sizes() != key.sizes() ||
      query.scalar_type() != key.scalar_type() || offset < 0)
    fail_argument(where, "query and key have the wrong shape or dtype, or the offset is negative",
                  c10::str(words(query), " and ", words(key), " for ", heads, " heads"),
                  "[batch, tokens, heads * head dim] for both, and an offset of 0 or more");
  const std::int64_t dim = query.size(2) / heads, tokens = query.size(1);
  check_rotation(where, rotation, dim);
  check_on_host(where, "query", query);
  check_on_host(where, "key", key);
  RotationTables tables;
  if (rotation.dims > 0) tables.reach(rotation.dims, rotation.theta, offset + tokens);
  const auto turn = [&](const Tensor& arguments) {
    const Tensor from = arguments.contiguous(), to = empty(from.sizes(), from.options());
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kBFloat16, at::kHalf, from.scalar_type(), "apply_rotary_pos_emb", [&] {
          const scalar_t* const in = from.const_data_ptr<scalar_t>();
          scalar_t* const out = to.mutable_data_ptr<scalar_t>();
          const std::int64_t rows = from.numel() / std::max<std::int64_t>(1, dim),
                             half = rotation.dims / 2;
          for (std::int64_t row = 0; row < rows; ++row) {
            const std::int64_t place = offset + row / heads % tokens;
            move_head(in + row * dim, out + row * dim, dim, rotation,
                      rotation.dims > 0 ? tables.cosines.data() + place * half : nullptr,
                      rotation.dims > 0 ? tables.sines.data() + place * half : nullptr);
          }
        });
    return to;
  };
  return {turn(query), turn(key)};
}

std::vector<Tensor> repeat_cache(std::int64_t source_batch, std::int64_t repeats,
                                 at::ScalarType dtype) {
  constexpr const char* where = "repeat_kv_cache";
  Workspace& workspace = Workspace::instance();
  const std::lock_guard lock(workspace.mutex());
  if (source_batch < 1 || repeats < 1 || source_batch * repeats != workspace.batch())
    fail_argument(where,
                  "the batch size times the repeats does not match the workspace's batch size",
                  c10::str(source_batch, " times ", repeats), std::to_string(workspace.batch()));
  const std::int64_t tokens = workspace.tokens() - 1;
  std::vector<Tensor> all;
  for (LayerCache& cache : workspace.layers()) {
    if (tokens < 1 || !cache.keys.defined() || cache.keys.scalar_type() != dtype)
      fail_argument(where, "the workspace contains no prompt to repeat",
                    c10::str(tokens, " tokens"), "a prompt of one or more tokens");
    for (const Tensor& whole : {cache.keys, cache.values}) {
      // Start at the last entry, so that no source is overwritten before it is copied.
      for (std::int64_t to = source_batch * repeats - 1; to > 0; --to)
        if (to / repeats != to)
          whole.select(0, to)
              .slice(1, 0, tokens)
              .copy_(whole.select(0, to / repeats).slice(1, 0, tokens));
      all.push_back(whole.slice(0, 0, source_batch * repeats).slice(2, 0, tokens));
    }
  }
  return all;
}

}  // namespace anyaccel::ops
