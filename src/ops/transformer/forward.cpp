// The forward pass of the layer.
#include "ATen/cpu/Utils.h"
#include "ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h"
#include "ATen/ops/abs.h"
#include "ATen/ops/min.h"
#include "ops/transformer/layer.h"

namespace anyaccel::ops {
namespace {

/// Number of rows per chunk in the feed-forward part; 16-bit types use twice as many. The
/// intermediate results of a chunk stay in the cache.
constexpr std::int64_t chunk_rows = 512;
/// Minimum sequence length for torch's op. For shorter sequences, its overhead exceeds the
/// computation time.
constexpr std::int64_t torch_length = 64;

/// Returns true if torch's bfloat16 kernel is used, which multiplies with AMX tiles. Our kernels,
/// which multiply in float32, are used without AMX, with dropout, for short sequences, and if the
/// backward pass needs the softmax statistics.
template <typename S>
bool by_torch(const Layer<S>& layer, bool keep) {
  if constexpr (!std::is_same_v<S, Bf16>) return false;
  static const bool has_tiles = at::cpu::init_amx();
  return has_tiles && !keep && !layer.attn_drop.threshold && layer.length >= torch_length &&
         layer.batch && layer.head_dim;
}

template <typename S>
Tensor attention_by_torch(const Layer<S>& layer, const Tensor& qkv) {
  const Tensor heads =
      qkv.view({layer.batch, layer.length, 3, layer.g.heads, layer.head_dim}).transpose(1, 3);
  const auto mask = layer.mask.defined() ? std::optional(layer.mask) : std::nullopt;
  const Tensor out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      heads.select(2, 0), heads.select(2, 1), heads.select(2, 2), 0, false, mask));
  return out.transpose(1, 2).reshape({layer.rows, layer.hidden});
}

template <typename S>
void attention(const Layer<S>& layer, const Tensor& qkv, const Tensor& out, const Tensor& stats) {
  using Real = typename RealOf<S>::type;
  const std::int64_t hidden = layer.hidden, row = 3 * hidden, length = layer.length,
                     dim = layer.head_dim;
  const S* const from = read<S>(qkv);
  S* const to = write<S>(out);
  Real* const stats_at = write<Real>(stats);
  const std::int64_t padded = layer.padded_dim(), each = length * padded;
  const auto offset = [&](std::int64_t index, std::int64_t step) {
    return index / layer.g.heads * length * step + index % layer.g.heads * dim;
  };
  if (layer.in_place()) {
    if constexpr (std::is_same_v<S, Real>) {
      const ThreadMemory<Real> scratch(full_attention_scratch(padded));
      const std::int64_t tiles = (length + attention_tile - 1) / attention_tile;
      parallel_tasks(
          layer.heads() * tiles, scratch.threads(), [&](std::int64_t i, std::int64_t thread) {
            const std::int64_t index = i / tiles;
            auto head = layer.head(index, stats_at);
            head.q = from + offset(index, row);
            head.k = head.q + hidden;
            head.v = head.k + hidden;
            head.row = row;
            head.out = to + offset(index, hidden);
            head.out_row = hidden;
            full_attention(layer.isa, head, i % tiles * attention_tile, scratch.of(thread));
          });
    }
    return;
  }
  const std::int64_t own = full_attention_scratch(padded);
  const ThreadMemory<Real> scratch(own + 4 * each);
  parallel_tasks(layer.heads(), scratch.threads(), [&](std::int64_t index, std::int64_t thread) {
    Real* const at = scratch.of(thread) + own;
    for (int i = 0; i < 3; ++i)
      gather(layer, from + offset(index, row) + i * hidden, row, at + i * each);
    auto head = layer.head(index, stats_at);
    head.q = at;
    head.k = at + each;
    head.v = at + 2 * each;
    head.row = head.out_row = padded;
    head.out = at + 3 * each;
    for (std::int64_t query = 0; query < length; query += attention_tile)
      full_attention(layer.isa, head, query, scratch.of(thread));
    scatter(layer, head.out, to + offset(index, hidden), hidden);
  });
}

template <typename S>
void norm_rows(const Layer<S>& layer, const AddNorm<S>& pass, std::int64_t first,
               std::int64_t rows) {
  const ThreadMemory<typename RealOf<S>::type> scratch(layer.hidden);
  parallel_rows(rows, layer.hidden,
                [&](std::int64_t begin, std::int64_t end, std::int64_t thread, std::int64_t) {
                  add_norm(layer.isa, pass, first + begin, first + end, scratch.of(thread));
                });
}

/// Rejects weights that contain 0, because inverting a norm divides by its weight.
void check_invertible(const char* name, const Tensor& weight) {
  if (weight.numel() && at::min(at::abs(weight)).item<double>() == 0)
    fail_argument("transformer_layer", std::string("normalize_invertible cannot divide by ") + name,
                  "a weight of 0", "nonzero weights", "disable normalize_invertible");
}

template <typename S>
TransformerForward forward_as(const TransformerArguments& g, bool keep) {
  const Layer<S> layer(g);
  const std::int64_t rows = layer.rows, hidden = layer.hidden, inter = layer.inter;
  const bool pre = g.pre_layer_norm;
  if (keep && g.normalize_invertible) {
    check_invertible("attn_nw", layer.nw);
    check_invertible("norm_w", layer.norm_w);
  }
  Tensor out = layer.empty({layer.batch, layer.length, hidden});
  TransformerKept kept = layer.begin(keep);
  if (pre) norm_rows(layer, first_norm<S>(layer, kept), 0, rows);
  const Tensor normal = pre ? kept.inp_norm : layer.input;

  kept.qkv = layer.empty({rows, 3 * hidden});
  if (!multiply_few(layer, kept.qkv, normal, g.attn_qkvw, layer.qkvb)) {
    multiply(kept.qkv, normal, g.attn_qkvw.t());
    parallel_rows(
        rows, 3 * hidden, [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
          add_bias(layer.isa, write<S>(kept.qkv), read<S>(layer.qkvb), 3 * hidden, begin, end);
        });
  }
  if (by_torch(layer, keep)) {
    kept.attn_out = attention_by_torch(layer, kept.qkv);
  } else {
    kept.attn_out = layer.empty({rows, hidden});
    attention(layer, kept.qkv, kept.attn_out, kept.attn_stats);
  }

  // Use the output as scratch space for matrix products until the result is written.
  const Tensor product = out.view({rows, hidden});
  multiply_weight(layer, product, kept.attn_out, g.attn_ow);
  kept.ff1_inp = layer.empty({rows, hidden});
  if (pre || layer.keeps_sums(keep)) kept.add_res = layer.empty({rows, hidden});
  norm_rows(layer, middle_norm<S>(layer, kept, product), 0, rows);

  const AddNorm<S> norm = last_norm<S>(layer, kept, keep, product, out);
  const std::int64_t chunk = std::min(rows, sizeof(S) == 2 ? 2 * chunk_rows : chunk_rows);
  const bool keep_gelu = keep && !g.gelu_checkpoint;
  if (keep) kept.gelu_inp = layer.empty({rows, inter});
  if (keep_gelu) kept.ff2_inp = layer.empty({rows, inter});
  const Tensor passing = keep_gelu ? Tensor() : layer.empty({chunk, inter});
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    const Tensor before =
        keep ? kept.gelu_inp.narrow(0, first, count) : passing.narrow(0, 0, count);
    const Tensor after =
        keep_gelu ? kept.ff2_inp.narrow(0, first, count) : passing.narrow(0, 0, count);
    multiply_weight(layer, before, kept.ff1_inp.narrow(0, first, count), g.inter_w);
    const Gelu<S> pass{inter, read<S>(before), read<S>(layer.inter_b), write<S>(after), g.tanh()};
    parallel_rows(count, inter,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    gelu(layer.isa, pass, begin, end);
                  });
    multiply_weight(layer, product.narrow(0, first, count), after, g.output_w);
    norm_rows(layer, norm, first, count);
  }

  return layer.result(out, kept, keep);
}

}  // namespace

TransformerForward transformer_forward(const TransformerArguments& arguments, bool keep) {
  return for_type(arguments,
                  [&](auto element) { return forward_as<decltype(element)>(arguments, keep); });
}

}  // namespace anyaccel::ops
