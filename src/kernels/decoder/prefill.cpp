#include "kernels/decoder/prefill.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/team.h"
#include "kernels/decoder/panel_attention.h"
#include "kernels/decoder/panel_partition.h"
#include "kernels/decoder/panels.h"
#include "kernels/decoder/scratch.h"

namespace anyaccel::ops {
namespace {

// Number of scores per query block; 1 MiB of float32.
constexpr std::int64_t max_scores = 256 * 1024;
// Number of queries per block, over all heads that share a key head.
constexpr std::int64_t max_block = 64;

/// Memory layout of a pass: offsets of the shared arrays and of each thread's arrays.
struct Plan {
  Wide wide;
  std::int64_t rows = 0, seen = 0, block;  ///< block: number of queries of one head per task
  std::int64_t qkv_columns = 0, mixed_columns, dim;
  std::int64_t normed_row, mixed_row, inner_row, query_row, shares_row, scores_row;
  std::int64_t normed, qkv, mixed, inner, change, shared = 0;
  std::int64_t panel, widened, products, own = 0;

  Plan(Isa isa, const Decoder& d) {
    wide = d.layers.empty() ? Wide::f32 : wide_for(isa, d.layers[0].caches[0].keys.type);
    for (const Segment& each : d.segments) {
      rows = std::max(rows, each.begin + each.rows);
      seen = std::max(seen, each.past + each.rows);
    }
    if (!d.layers.empty())
      for (const Linear& part : d.layers[0].qkv) qkv_columns += part.matrix.outputs;
    mixed_columns = d.heads * d.head_dim;
    const std::int64_t queries = std::min(d.heads, d.group);
    block = std::max<std::int64_t>(
        1, std::min(max_block, max_scores / rounded(seen, panel_outputs)) / queries);
    const std::int64_t wide_inputs = std::max({d.hidden, mixed_columns, d.inner, seen, d.head_dim});
    normed_row = wide_row_bytes(wide, d.hidden);
    mixed_row = wide_row_bytes(wide, mixed_columns);
    inner_row = wide_row_bytes(wide, d.inner);
    query_row = wide_row_bytes(wide, d.head_dim);
    scores_row = rounded(seen, panel_outputs) + panel_outputs;
    shares_row = wide_row_bytes(wide, seen + 1);
    dim = rounded(d.head_dim, panel_outputs);
    normed = place(shared, rows * normed_row);
    qkv = place(shared, rows * qkv_columns * 4);
    mixed = place(shared, rows * mixed_row);
    inner = place(shared, rows * inner_row);
    change = place(shared, d.norms_after || d.sum.add_up ? rows * d.hidden * 4 : 0);
    // At any time, a thread computes either a matrix product or attention, so the two use the same
    // memory.
    const std::int64_t attending =
        block * queries * (query_row + shares_row + (scores_row + dim + 1) * 4);
    const std::int64_t head = d.hidden * max_rows * 4 +
                              max_rows * prepared_bytes(Format::f32, d.hidden) +
                              max_rows * prepared_bytes(Format::int4, d.hidden) + 256;
    panel = place(own, panel_bytes(wide, wide_inputs));
    widened = place(own, panel_scratch_bytes(wide_inputs));
    products = place(own, std::max({2 * rows * panel_outputs * 4, attending + 512, head}));
  }
};

class Pass {
 public:
  Pass(Isa isa, const Decoder& d, float* x, float* logits, char* scratch, const Plan& plan,
       Team& team, Half half, float* change)
      : isa_(isa),
        d_(d),
        x_(x),
        logits_(logits),
        plan_(plan),
        team_(team),
        half_(half),
        out_(change) {
    char* const own = scratch + plan.shared + team.thread() * plan.own;
    normed_ = scratch + plan.normed;
    qkv_ = reinterpret_cast<float*>(scratch + plan.qkv);
    mixed_ = scratch + plan.mixed;
    inner_ = scratch + plan.inner;
    change_ = reinterpret_cast<float*>(scratch + plan.change);
    panel_ = own + plan.panel;
    widened_ = own + plan.widened;
    products_ = reinterpret_cast<float*>(own + plan.products);
  }

  void run() {
    for (const DecoderLayer& layer : d_.layers) {
      if (half_ != Half::feed_forward && !attention(layer)) return;
      if (half_ != Half::attention && !feed_forward(layer)) return;
    }
    if (d_.head.matrix.outputs == 0) return;
    d_.last_only ? last_logits() : all_logits();
  }

 private:
  PanelShares shares() const { return {team_.threads(), plan_.rows}; }

  /// Multiplies the rows [rows.begin, rows.end) by the panel of outputs that starts at `output`,
  /// and writes the products to to[row - rows.begin][panel_outputs].
  void multiply(const Matrix& matrix, std::int64_t output, const char* x, std::int64_t x_row,
                const PanelShare& rows, float* to) {
    make_panel(isa_, plan_.wide, matrix, output, widened_, panel_);
    multiply_panel(isa_, plan_.wide, panel_, matrix.inputs, x + rows.begin * x_row, x_row,
                   rows.end - rows.begin, to, panel_outputs);
  }

  /// Calls finish(row, column, count, values) for each row and each panel of outputs of all parts.
  /// `values` includes the bias.
  template <typename Finish>
  void project(const Linear* parts, std::size_t count, const char* x, std::int64_t x_row,
               const Finish& finish) {
    std::int64_t panels = 0;
    for (std::size_t i = 0; i < count; ++i)
      panels += pieces(parts[i].matrix.outputs, panel_outputs);
    team_.tasks(shares().count(panels), [&](std::int64_t task) {
      const PanelShare share = shares().of(task, panels);
      std::int64_t at = share.panel, column = 0;
      const Linear* part = parts;
      for (; at >= pieces(part->matrix.outputs, panel_outputs); ++part) {
        at -= pieces(part->matrix.outputs, panel_outputs);
        column += part->matrix.outputs;
      }
      const std::int64_t begin = at * panel_outputs,
                         n = std::min(panel_outputs, part->matrix.outputs - begin);
      multiply(part->matrix, begin, x, x_row, share, products_);
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        float* const values = products_ + (r - share.begin) * panel_outputs;
        add_bias_row(isa_, part->bias, begin, n, values);
        finish(r, column + begin, n, values);
      }
    });
  }

  void norm_rows(const Norm& norm) {
    team_.tasks(plan_.rows, [&](std::int64_t r) {
      norm_row(isa_, norm, x_ + r * d_.hidden, d_.hidden, products_);
      widen_row(isa_, plan_.wide, products_, d_.hidden, normed_ + r * plan_.normed_row);
    });
  }

  /// Computes x += part(rows). With `split`, the product is all-reduced over the ranks. If
  /// d_.norms_after is set, the result is normalized before it is added. Returns false if the
  /// all-reduce failed.
  bool add_change(const Linear& part, const char* rows, std::int64_t row, const Norm& norm,
                  bool split) {
    const bool sums = split && d_.sum.add_up;
    float* const to = half_ != Half::whole ? out_ : d_.norms_after || sums ? change_ : x_;
    const bool add = to == x_;
    project(&part, 1, rows, row,
            [&](std::int64_t r, std::int64_t column, std::int64_t n, const float* values) {
              float* const out = to + r * d_.hidden + column;
              if (!add)
                return static_cast<void>(std::memcpy(out, values, static_cast<std::size_t>(n) * 4));
              for (std::int64_t i = 0; i < n; ++i) out[i] += values[i];
            });
    if (to != change_) return true;
    const auto idle = [](void* team) { static_cast<Team*>(team)->ask(); };
    if (sums && !team_.alone([&] {
          d_.sum.add_up(d_.sum.group, change_, plan_.rows * d_.hidden, idle, &team_);
        }))
      return false;
    team_.tasks(plan_.rows, [&](std::int64_t r) {
      float* const change = change_ + r * d_.hidden;
      if (d_.norms_after) norm_row(isa_, norm, change, d_.hidden, change);
      for (std::int64_t i = 0; i < d_.hidden; ++i) x_[r * d_.hidden + i] += change[i];
    });
    return true;
  }

  float* qkv_head(std::int64_t row, std::int64_t head) {
    return qkv_ + row * plan_.qkv_columns + head * d_.head_dim;
  }

  void position_head(const DecoderLayer& layer, const Norm& norm, std::int64_t row, float* head) {
    if (d_.head_norms) norm_row(isa_, norm, head, d_.head_dim, head);
    if (d_.half)
      rotate_row(isa_, head, layer.cos + row * d_.half, layer.sin + row * d_.half, d_.half);
  }

  /// Applies the rotary embedding for a row's position to its queries and keys, and stores keys and
  /// values in the KV cache.
  void position_row(const DecoderLayer& layer, const Segment& segment, const Cache& cache,
                    std::int64_t row) {
    for (std::int64_t head = 0; head < d_.heads; ++head)
      position_head(layer, layer.query_norm, row, qkv_head(row, head));
    for (std::int64_t head = 0; head < d_.kv_heads; ++head) {
      float* const key = qkv_head(row, d_.heads + head);
      const std::int64_t at =
          (head * segment.capacity + segment.past + row - segment.begin) * d_.head_dim;
      position_head(layer, layer.key_norm, row, key);
      store_row(isa_, key, d_.head_dim, cache.keys, at);
      store_row(isa_, qkv_head(row, d_.heads + d_.kv_heads + head), d_.head_dim, cache.values, at);
    }
  }

  bool attention(const DecoderLayer& layer) {
    norm_rows(layer.input_norm);
    project(layer.qkv.data(), layer.qkv.size(), normed_, plan_.normed_row,
            [&](std::int64_t r, std::int64_t column, std::int64_t n, const float* values) {
              std::memcpy(qkv_ + r * plan_.qkv_columns + column, values,
                          static_cast<std::size_t>(n) * 4);
            });
    for (std::size_t i = 0; i < d_.segments.size(); ++i) {
      const Segment& segment = d_.segments[i];
      const Cache& cache = layer.caches[i];
      team_.tasks(segment.rows, [&](std::int64_t row) {
        position_row(layer, segment, cache, segment.begin + row);
      });
      const std::int64_t blocks = pieces(segment.rows, plan_.block);
      team_.tasks(blocks * d_.kv_heads, [&](std::int64_t task) {
        // The last blocks attend to the most positions. They start first, so that no thread is
        // still processing a long block when the others have finished.
        attend_block(layer, segment, cache, task % d_.kv_heads,
                     (blocks - 1 - task / d_.kv_heads) * plan_.block);
      });
    }
    return add_change(layer.output, mixed_, plan_.mixed_row, layer.after_attention,
                      d_.sum.attention);
  }

  /// Processes the queries [first, first + block) of a segment, for all heads that share a key
  /// head.
  void attend_block(const DecoderLayer& layer, const Segment& segment, const Cache& cache,
                    std::int64_t key_head, std::int64_t first) {
    const std::int64_t first_head = std::max<std::int64_t>(0, key_head * d_.group - d_.first_head);
    const std::int64_t heads =
        std::min(d_.heads, (key_head + 1) * d_.group - d_.first_head) - first_head;
    const std::int64_t count = std::min(plan_.block, segment.rows - first);
    const std::int64_t rows = count * heads, end = segment.past + first + count;
    const std::int64_t seen_first = segment.past + first;  // position of the first query
    const std::int64_t begin =
        layer.window > 0 ? std::max<std::int64_t>(0, seen_first + 1 - layer.window) / 2 * 2 : 0;
    const std::int64_t seen = end - begin, type = size_of(cache.keys.type);
    char* at = reinterpret_cast<char*>(products_);
    const auto take = [&](std::int64_t bytes) {
      char* const here = at;
      at += rounded(bytes, 64);
      return here;
    };
    char* const queries = take(rows * plan_.query_row);
    char* const shares = take(rows * plan_.shares_row);
    auto* const scores = reinterpret_cast<float*>(take(rows * plan_.scores_row * 4));
    auto* const mixed = reinterpret_cast<float*>(take(rows * plan_.dim * 4));
    auto* const sums = reinterpret_cast<float*>(take(rows * 4));
    const std::int64_t offset = (key_head * segment.capacity + begin) * d_.head_dim * type;
    const char* const keys = static_cast<const char*>(cache.keys.data) + offset;
    const char* const values = static_cast<const char*>(cache.values.data) + offset;
    for (std::int64_t r = 0; r < rows; ++r)
      widen_row(isa_, plan_.wide,
                qkv_head(segment.begin + first + r / heads, first_head + r % heads), d_.head_dim,
                queries + r * plan_.query_row);
    const Format format = cache.keys.type == Element::f32    ? Format::f32
                          : cache.keys.type == Element::bf16 ? Format::bf16
                                                             : Format::fp16;
    const Matrix all_keys{format, seen, d_.head_dim, 0, keys, nullptr, nullptr};
    const PanelAttention panels{isa_, plan_.wide, panel_, widened_};
    panels.score(all_keys, {queries, rows, plan_.query_row}, scores, plan_.scores_row);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = scores + r * plan_.scores_row;
      const std::int64_t last = first + r / heads + segment.past + 1 - begin;
      const std::int64_t from =
          layer.window > 0 ? std::max<std::int64_t>(0, last - layer.window) : 0;
      sums[r] = attention_shares_row(isa_, layer.scale, d_.softcap, row + from, last - from);
      std::fill(row, row + from, 0.0F);
      std::fill(row + last, row + seen + seen % 2, 0.0F);
      widen_row(isa_, plan_.wide, row, seen, shares + r * plan_.shares_row);
    }
    panels.mix(values, cache.values.type, seen, d_.head_dim, {shares, rows, plan_.shares_row},
               mixed, plan_.dim);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = mixed + r * plan_.dim;
      const float factor = 1 / sums[r];
      for (std::int64_t i = 0; i < d_.head_dim; ++i) row[i] *= factor;
      put_mixed(segment.begin + first + r / heads, first_head + r % heads, row);
    }
  }

  /// Converts a head's result to the operand type and stores it in the head's columns of the row,
  /// which need not start at a cache line boundary.
  void put_mixed(std::int64_t row, std::int64_t head, const float* values) {
    char* const to = mixed_ + row * plan_.mixed_row;
    const std::int64_t size = plan_.wide == Wide::bf16 ? 2 : 4, bytes = d_.head_dim * size;
    alignas(64) char wide[max_head_dim * 4 + 64];
    widen_row(isa_, plan_.wide, values, d_.head_dim, wide);
    std::memcpy(to + head * bytes, wide, static_cast<std::size_t>(bytes));
    if (head == d_.heads - 1) {
      const std::int64_t used = d_.heads * bytes;
      std::memset(to + used, 0, static_cast<std::size_t>(rounded(used, 64) - used));
    }
  }

  bool feed_forward(const DecoderLayer& layer) {
    norm_rows(layer.post_norm);
    const Linear& gate = layer.up[0];
    const std::int64_t panels = pieces(d_.inner, panel_outputs),
                       size = plan_.wide == Wide::bf16 ? 2 : 4;
    team_.tasks(shares().count(panels), [&](std::int64_t task) {
      const PanelShare share = shares().of(task, panels);
      const std::int64_t begin = share.panel * panel_outputs,
                         n = std::min(panel_outputs, d_.inner - begin);
      float* const other = products_ + plan_.rows * panel_outputs;
      multiply(gate.matrix, begin, normed_, plan_.normed_row, share, products_);
      if (d_.gated) multiply(layer.up[1].matrix, begin, normed_, plan_.normed_row, share, other);
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        float* const a = products_ + (r - share.begin) * panel_outputs;
        float* const b = other + (r - share.begin) * panel_outputs;
        add_bias_row(isa_, gate.bias, begin, n, a);
        if (d_.gated) add_bias_row(isa_, layer.up[1].bias, begin, n, b);
        gate_row(isa_, d_.gate, a, d_.gated ? b : nullptr, n);
        // Except for the last panel, which ends at the end of the row, panels consist of whole
        // cache lines.
        widen_row(isa_, plan_.wide, a, n, inner_ + r * plan_.inner_row + begin * size);
      }
    });
    return add_change(layer.down, inner_, plan_.inner_row, layer.after_feed_forward,
                      d_.sum.feed_forward);
  }

  bool final_norm() const { return d_.final_norm.eps >= 0; }

  void all_logits() {
    team_.tasks(plan_.rows, [&](std::int64_t r) {
      const float* row = x_ + r * d_.hidden;
      if (final_norm()) norm_row(isa_, d_.final_norm, row, d_.hidden, products_), row = products_;
      widen_row(isa_, plan_.wide, row, d_.hidden, normed_ + r * plan_.normed_row);
    });
    const std::int64_t outputs = d_.head.matrix.outputs;
    project(&d_.head, 1, normed_, plan_.normed_row,
            [&](std::int64_t r, std::int64_t column, std::int64_t n, const float* values) {
              std::memcpy(logits_ + r * outputs + column, values, static_cast<std::size_t>(n) * 4);
            });
  }

  /// Computes the logits of the last row of each segment, max_rows rows at a time, with the same
  /// matrix products as run_decoder().
  void last_logits() {
    const Matrix& m = d_.head.matrix;
    const auto segments = static_cast<std::int64_t>(d_.segments.size());
    float* const normed = products_;
    char* const prepared = reinterpret_cast<char*>(products_ + rounded(max_rows * d_.hidden, 16));
    constexpr std::int64_t step = 64;
    for (std::int64_t first = 0; first < segments; first += max_rows) {
      const std::int64_t count = std::min(max_rows, segments - first);
      for (std::int64_t i = 0; i < count; ++i) {
        const Segment& segment = d_.segments[static_cast<std::size_t>(first + i)];
        const float* const row = x_ + (segment.begin + segment.rows - 1) * d_.hidden;
        if (final_norm())
          norm_row(isa_, d_.final_norm, row, d_.hidden, normed + i * d_.hidden);
        else
          std::memcpy(normed + i * d_.hidden, row, static_cast<std::size_t>(d_.hidden) * 4);
      }
      prepare_rows(isa_, m, normed, count, prepared);
      team_.tasks(pieces(m.outputs, step), [&](std::int64_t task) {
        const std::int64_t begin = task * step, end = std::min(m.outputs, begin + step);
        float* const to = logits_ + first * m.outputs + begin;
        multiply_rows(isa_, m, prepared, count, begin, end, to, m.outputs);
        for (std::int64_t i = 0; i < count; ++i)
          add_bias_row(isa_, d_.head.bias, begin, end - begin, to + i * m.outputs);
      });
    }
  }

  Isa isa_;
  const Decoder& d_;
  float *x_, *logits_;
  const Plan& plan_;
  Team& team_;
  Half half_;
  float* out_;
  char *normed_, *mixed_, *inner_, *panel_, *widened_;
  float *qkv_, *change_, *products_;
};

}  // namespace

std::int64_t prefill_scratch(Isa isa, const Decoder& decoder, std::int64_t threads) {
  const Plan plan(isa, decoder);
  return plan.shared + threads * plan.own;
}

void run_prefill(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half, float* change) {
  const Plan plan(isa, decoder);
  run_team(threads, [&](Team& team) {
    Pass(isa, decoder, x, logits, static_cast<char*>(scratch), plan, team, half, change).run();
  });
}

}  // namespace anyaccel::ops
