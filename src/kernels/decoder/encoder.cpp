#include "kernels/decoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/team.h"
#include "kernels/decoder/panel_attention.h"
#include "kernels/decoder/panel_partition.h"
#include "kernels/decoder/panels.h"
#include "kernels/decoder/scratch.h"

namespace anyaccel::ops {
namespace {

// Number of queries per task, all from one head; eight row tiles.
constexpr std::int64_t query_block = 48;
// Maximum number of rows over which the prefetch of the next panel is spread.
constexpr std::int64_t row_block = 48;

/// Memory layout of a pass: offsets of the shared arrays and of each thread's arrays.
struct Plan {
  std::int64_t rows = 0, longest = 0, dim;
  std::int64_t qkv, mixed, sum, inner, shared = 0;
  std::int64_t panel, widened, products, scores, own = 0;

  explicit Plan(const Encoder& e) : dim(e.hidden / e.heads) {
    for (const std::int64_t length : e.lengths) {
      rows += length;
      longest = std::max(longest, length);
    }
    qkv = place(shared, rows * 3 * e.hidden * 4);
    mixed = place(shared, rows * e.hidden * 4);
    sum = place(shared, rows * e.hidden * 4);
    inner = place(shared, rows * e.inner * 4);
    panel = place(own, panel_bytes(Wide::f32, std::max(dim, longest)));
    widened = place(own, panel_scratch_bytes(dim));
    products =
        place(own, std::max(rows * panel_outputs, query_block * rounded(dim, panel_outputs)) * 4);
    scores = place(own, query_block * (rounded(longest, panel_outputs) + 1) * 4);
  }
};

class Pass {
 public:
  Pass(Isa isa, const Encoder& e, float* x, char* scratch, const Plan& plan, Team& team)
      : isa_(isa), e_(e), plan_(plan), team_(team), shares_{team.threads(), plan.rows}, x_(x) {
    const auto floats = [](char* at) { return reinterpret_cast<float*>(at); };
    char* const own = scratch + plan.shared + team.thread() * plan.own;
    qkv_ = floats(scratch + plan.qkv);
    mixed_ = floats(scratch + plan.mixed);
    sum_ = floats(scratch + plan.sum);
    inner_ = floats(scratch + plan.inner);
    panel_ = own + plan.panel;
    widened_ = own + plan.widened;
    products_ = floats(own + plan.products);
    scores_ = floats(own + plan.scores);
  }

  void run() {
    for (std::size_t i = 0; i < e_.layers.size(); ++i)
      layer(e_.layers[i], i + 1 < e_.layers.size() ? &e_.layers[i + 1].qkv : nullptr);
  }

 private:
  /// Returns a function that computes to = from + values.
  auto adding(const float* from, float* to) {
    return
        [this, from, to](std::int64_t r, std::int64_t column, std::int64_t n, const float* values) {
          const std::int64_t at = r * e_.hidden + column;
          for (std::int64_t i = 0; i < n; ++i) to[at + i] = from[at + i] + values[i];
        };
  }

  void layer(const EncoderLayer& layer, const PackedMatrix* next) {
    project(layer.qkv, x_, &layer.output,
            [&](std::int64_t r, std::int64_t column, std::int64_t n, const float* values) {
              while (n > 0) {
                const std::int64_t head = column / plan_.dim, at = column % plan_.dim,
                                   count = std::min(n, plan_.dim - at);
                std::memcpy(of_head(head, r) + at, values, static_cast<std::size_t>(count) * 4);
                column += count, values += count, n -= count;
              }
            });
    attention();
    project(layer.output, mixed_, &layer.inner, adding(x_, sum_));
    norm_rows(layer.attention_norm, sum_);
    project(layer.inner, sum_, &layer.down,
            [&](std::int64_t r, std::int64_t column, std::int64_t n, float* values) {
              gate_row(isa_, e_.gate, values, nullptr, n);
              std::memcpy(inner_ + r * e_.inner + column, values, static_cast<std::size_t>(n) * 4);
            });
    project(layer.down, inner_, next, adding(sum_, x_));
    norm_rows(layer.norm, x_);
  }

  void norm_rows(const Norm& norm, float* rows) {
    team_.tasks(plan_.rows, [&](std::int64_t r) {
      norm_row(isa_, norm, rows + r * e_.hidden, e_.hidden, rows + r * e_.hidden);
    });
  }

  /// Returns a row of a head. Queries, keys and values of all heads are stored as [3 *
  /// heads][rows][dim].
  float* of_head(std::int64_t head, std::int64_t row) {
    return qkv_ + (head * plan_.rows + row) * plan_.dim;
  }

  /// Calls finish(row, column, count, values) for each row of `from` and each panel of outputs.
  /// `values` holds the row's products with the panel, including the bias. `next` is the matrix
  /// that is read after this one, or null.
  template <typename Finish>
  void project(const PackedMatrix& m, const float* from, const PackedMatrix* next,
               const Finish& finish) {
    const std::int64_t panels = pieces(m.outputs, panel_outputs), size = m.inputs * panel_outputs;
    if (next) prefetch(*next);
    const Values bias{const_cast<float*>(m.bias), Element::f32};
    team_.tasks(shares_.count(panels), [&](std::int64_t task) {
      const PanelShare share = shares_.of(task, panels);
      const std::int64_t begin = share.panel * panel_outputs,
                         n = std::min(panel_outputs, m.outputs - begin);
      const float* const panel = m.panels + share.panel * size;
      const std::int64_t blocks = pieces(share.end - share.begin, panel_tile_rows);
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t first = share.begin + block * panel_tile_rows;
        if (share.panel + 1 < panels)
          ask(panel + size, size * 4, block, std::min(blocks, row_block / panel_tile_rows));
        multiply_panel(isa_, Wide::f32, panel, m.inputs, from + first * m.inputs, m.inputs * 4,
                       std::min(panel_tile_rows, share.end - first),
                       products_ + block * panel_tile_rows * panel_outputs, panel_outputs);
      }
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        float* const values = products_ + (r - share.begin) * panel_outputs;
        add_bias_row(isa_, bias, begin, n, values);
        finish(r, begin, n, values);
      }
    });
  }

  /// Prefetches part `i` of `count` parts of the next panel. The hardware prefetcher stops at the
  /// end of the current panel, and is idle while the remaining rows read that panel from a cache.
  static void ask(const float* from, std::int64_t bytes, std::int64_t i, std::int64_t count) {
    if (i >= count) return;
    const char* const at = reinterpret_cast<const char*>(from);
    for (std::int64_t line = bytes * i / count / 64 * 64; line < bytes * (i + 1) / count;
         line += 64)
      __builtin_prefetch(at + line, 0, 2);
  }

  /// Sets the matrix that is read next. While a thread waits, it prefetches the first panel that it
  /// will read from that matrix.
  void prefetch(const PackedMatrix& m) {
    const std::int64_t panels = pieces(m.outputs, panel_outputs), size = m.inputs * panel_outputs;
    team_.prefetch(m.panels + panels * team_.thread() / team_.threads() * size, size * 4);
  }

  void attention() {
    std::int64_t blocks = 0;
    for (const std::int64_t length : e_.lengths) blocks += pieces(length, query_block);
    team_.tasks(blocks * e_.heads, [&](std::int64_t task) {
      std::int64_t block = task / e_.heads, begin = 0;
      std::size_t text = 0;
      for (; block >= pieces(e_.lengths[text], query_block); begin += e_.lengths[text++])
        block -= pieces(e_.lengths[text], query_block);
      attend(task % e_.heads, begin, e_.lengths[text], block * query_block);
    });
  }

  /// Processes the queries [first, first + query_block) of one head. Their sequence has `length`
  /// rows, starting at row `begin`.
  void attend(std::int64_t head, std::int64_t begin, std::int64_t length, std::int64_t first) {
    const std::int64_t count = std::min(query_block, length - first), dim = plan_.dim;
    const std::int64_t scores_row = rounded(length, panel_outputs),
                       mixed_row = rounded(dim, panel_outputs);
    const Matrix keys{Format::f32, length, dim, 0, of_head(e_.heads + head, begin),
                      nullptr,     nullptr};
    const PanelAttention panels{isa_, Wide::f32, panel_, widened_};
    panels.score(keys, {of_head(head, begin + first), count, dim * 4}, scores_, scores_row);
    float* const sums = scores_ + query_block * scores_row;
    const float scale = 1 / std::sqrt(static_cast<float>(dim));
    for (std::int64_t r = 0; r < count; ++r)
      sums[r] = attention_shares_row(isa_, scale, 0, scores_ + r * scores_row, length);
    panels.mix(of_head(2 * e_.heads + head, begin), Element::f32, length, dim,
               {scores_, count, scores_row * 4}, products_, mixed_row);
    for (std::int64_t r = 0; r < count; ++r) {
      float* const to = mixed_ + (begin + first + r) * e_.hidden + head * dim;
      const float* const from = products_ + r * mixed_row;
      const float factor = 1 / sums[r];
      for (std::int64_t i = 0; i < dim; ++i) to[i] = from[i] * factor;
    }
  }

  Isa isa_;
  const Encoder& e_;
  const Plan& plan_;
  Team& team_;
  PanelShares shares_;
  float *x_, *qkv_, *mixed_, *sum_, *inner_, *products_, *scores_;
  char *panel_, *widened_;
};

}  // namespace

std::int64_t packed_size(std::int64_t outputs, std::int64_t inputs) noexcept {
  return pieces(outputs, panel_outputs) * inputs * panel_outputs;
}

void pack_panels(Isa isa, const float* weight, std::int64_t outputs, std::int64_t inputs,
                 std::int64_t begin, std::int64_t end, void* scratch, float* packed) noexcept {
  const Matrix matrix{Format::f32, outputs, inputs, 0, weight, nullptr, nullptr};
  for (std::int64_t panel = begin; panel < end; ++panel)
    make_panel(isa, Wide::f32, matrix, panel * panel_outputs, scratch,
               packed + panel * inputs * panel_outputs);
}

std::int64_t encoder_scratch(const Encoder& encoder, std::int64_t threads) {
  const Plan plan(encoder);
  return plan.shared + threads * plan.own;
}

void run_encoder(Isa isa, const Encoder& encoder, float* x, void* scratch, std::int64_t threads) {
  const Plan plan(encoder);
  run_team(threads, [&](Team& team) {
    Pass(isa, encoder, x, static_cast<char*>(scratch), plan, team).run();
  });
}

}  // namespace anyaccel::ops
