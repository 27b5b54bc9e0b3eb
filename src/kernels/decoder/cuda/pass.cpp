#include "kernels/decoder/cuda/pass.h"

#include <algorithm>

#include "kernels/decoder/cuda/attention.h"

namespace anyaccel::ops {
namespace {

/// Byte offsets of a pass's arrays.
struct Plan {
  std::int64_t rows, pairs, qkv_columns, mixed_columns;
  std::int64_t normed, qkv, mixed, first, inner, change, routed, chosen, partial, bytes = 0;

  explicit Plan(const Decoder& d) {
    std::int64_t all = 0, seen = 0;
    for (const Segment& each : d.segments) {
      all = std::max(all, each.begin + each.rows);
      seen = std::max(seen, each.past + each.rows);
    }
    rows = std::min(all, cuda_rows);
    pairs = rows * d.experts_per_token;
    qkv_columns = (d.heads + 2 * d.kv_heads) * d.head_dim;
    mixed_columns = d.heads * d.head_dim;
    std::int64_t max_first = rows * d.inner * 2, max_change = rows * d.hidden, max_routed = 0,
                 max_inner = 0;
    for (const DecoderLayer& layer : d.layers) {
      const Experts& experts = layer.experts;
      if (experts.router.matrix.outputs == 0) continue;
      max_routed = std::max(max_routed, rows * experts.router.matrix.outputs);
      max_first = std::max(max_first, pairs * 2 * experts.down.inputs);
      max_inner = std::max(max_inner, pairs * experts.down.inputs);
      // The buffer holds the row sums, followed by the results of the (row, expert) pairs.
      max_change = std::max(max_change, rows * d.hidden + pairs * d.hidden);
    }
    normed = place(rows * d.hidden * 4);
    qkv = place(rows * qkv_columns * 4);
    mixed = place(rows * mixed_columns * 4);
    first = place(max_first * 4);
    inner = place(std::max(max_inner, rows * d.inner) * 4);
    change = place(max_change * 4);
    routed = place(max_routed * 4);
    chosen = place(pairs * static_cast<std::int64_t>(sizeof(Chosen)));
    partial = place(d.layers.empty() ? 0 : 4 * attend_floats(rows, d.heads, d.head_dim, seen));
  }

 private:
  std::int64_t place(std::int64_t size) {
    const std::int64_t begin = bytes;
    bytes += (size + 255) / 256 * 256;
    return begin;
  }
};

/// A pass over at most cuda_rows rows, starting at row `begin`.
class Pass {
 public:
  Pass(const Decoder& d, const Plan& plan, std::int64_t begin, std::int64_t rows, float* x,
       char* scratch, Half half, float* change, void* stream)
      : d_(d),
        plan_(plan),
        begin_(begin),
        rows_(rows),
        x_(x + begin * d.hidden),
        half_(half),
        stream_(stream) {
    const auto floats = [&](std::int64_t at) { return reinterpret_cast<float*>(scratch + at); };
    normed_ = floats(plan.normed);
    qkv_ = floats(plan.qkv);
    mixed_ = floats(plan.mixed);
    first_ = floats(plan.first);
    inner_ = floats(plan.inner);
    change_ = half == Half::whole ? floats(plan.change) : change + begin * d.hidden;
    pairs_ = floats(plan.change) + rows_ * d.hidden;
    routed_ = floats(plan.routed);
    chosen_ = reinterpret_cast<Chosen*>(scratch + plan.chosen);
    partial_ = floats(plan.partial);
    for (std::size_t s = 0; s < d.segments.size(); ++s)
      for (std::int64_t i = 0; i < d.segments[s].rows; ++i) {
        const std::int64_t row = d.segments[s].begin + i - begin;
        if (row >= 0 && row < rows) segment_of_[row] = s;
      }
  }

  const char* run(float* logits) {
    for (const DecoderLayer& layer : d_.layers) {
      if (half_ != Half::feed_forward) attention(layer);
      if (half_ != Half::attention) feed_forward(layer);
    }
    if (half_ != Half::whole) return problem_;
    if (d_.head.matrix.outputs == 0 || d_.last_only) add_pending();
    if (d_.head.matrix.outputs != 0) head(logits);
    return problem_;
  }

 private:
  void launched(const char* problem) {
    if (!problem_) problem_ = problem;
  }

  /// Returns a launch that adds the pending change to x and computes the norm of x.
  NormRows norm_launch(const Norm& norm) {
    NormRows out{};
    out.x = x_;
    out.change = pending_ ? change_ : nullptr;
    out.norms_change = pending_ && d_.norms_after;
    if (pending_) out.after = *pending_;
    out.to = normed_;
    out.normed = true;
    out.norm = norm;
    out.rows = rows_;
    out.columns = d_.hidden;
    for (std::int64_t row = 0; row < rows_; ++row) out.from[row] = static_cast<std::int32_t>(row);
    pending_ = nullptr;
    return out;
  }
  void norm_rows(const Norm& norm) { launched(cuda_norm_rows(norm_launch(norm), stream_)); }
  void add_pending() {
    if (!pending_) return;
    NormRows launch = norm_launch({});
    launch.to = nullptr;
    launched(cuda_norm_rows(launch, stream_));
  }

  /// Computes to[rows][outputs of all parts]. Consecutive parts with the same format and group size
  /// share one launch.
  void project(const Linear* parts, std::size_t count, const float* x, std::int64_t rows, float* to,
               bool biases) {
    std::int64_t columns = 0, column = 0;
    for (std::size_t i = 0; i < count; ++i) columns += parts[i].matrix.outputs;
    for (std::size_t i = 0; i < count;) {
      const Matrix& m = parts[i].matrix;
      Products launch{m.format, m.inputs, m.group, 0, {}, x, rows, to + column, columns};
      for (; i < count && launch.parts < Products::max_parts; ++i) {
        const Matrix& next = parts[i].matrix;
        if (next.format != m.format || next.group != m.group) break;
        launch.part[launch.parts++] = {next.weight, next.scales, next.zeros,
                                       biases ? parts[i].bias : Values{}, next.outputs};
        column += next.outputs;
      }
      launched(cuda_products(launch, stream_));
    }
  }
  void project(const Linear& part, const float* x, float* to) {
    project(&part, 1, x, rows_, to, true);
  }

  void set_places(const DecoderLayer& layer, RowPlace* places) const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::size_t s = segment_of_[row];
      const Segment& segment = d_.segments[s];
      const Cache& cache = layer.caches[s];
      places[row] = {cache.keys, cache.values, segment.past + begin_ + row - segment.begin,
                     segment.capacity};
    }
  }

  void attention(const DecoderLayer& layer) {
    norm_rows(layer.input_norm);
    project(layer.qkv.data(), layer.qkv.size(), normed_, rows_, qkv_, true);
    PositionHeads heads{qkv_,
                        rows_,
                        d_.heads,
                        d_.kv_heads,
                        d_.head_dim,
                        d_.head_norms,
                        layer.query_norm,
                        layer.key_norm,
                        d_.half,
                        false,
                        d_.half ? layer.cos + begin_ * d_.half : nullptr,
                        d_.half ? layer.sin + begin_ * d_.half : nullptr,
                        {}};
    set_places(layer, heads.places);
    launched(cuda_position_heads(heads, stream_));
    AttendCache attend{qkv_,
                       plan_.qkv_columns,
                       rows_,
                       d_.heads,
                       d_.kv_heads,
                       d_.head_dim,
                       d_.group,
                       d_.first_head,
                       layer.scale,
                       d_.softcap,
                       layer.window,
                       nullptr,
                       0,
                       mixed_,
                       partial_,
                       Element::f32,
                       {}};
    set_places(layer, attend.places);
    for (const Element type : {Element::f32, Element::bf16, Element::fp16}) {
      attend.type = type;
      if (std::any_of(attend.places, attend.places + rows_,
                      [&](const RowPlace& place) { return place.keys.type == type; }))
        launched(cuda_attend_cache(attend, stream_));
    }
    project(layer.output, mixed_, change_);
    pending_ = &layer.after_attention;
  }

  void feed_forward(const DecoderLayer& layer) {
    norm_rows(layer.post_norm);
    const Experts& experts = layer.experts;
    if (experts.router.matrix.outputs)
      run_experts(experts);
    else {
      project(layer.up.data(), layer.up.size(), normed_, rows_, first_, false);
      const std::int64_t columns = d_.inner * (d_.gated ? 2 : 1);
      launched(
          cuda_gate_rows({first_, columns, layer.up[0].bias, d_.gated ? layer.up[1].bias : Values{},
                          d_.gated, d_.gate, inner_, rows_, d_.inner},
                         stream_));
      project(layer.down, inner_, change_);
    }
    pending_ = &layer.after_feed_forward;
  }

  void run_experts(const Experts& experts) {
    const std::int64_t count = d_.experts_per_token, inner = experts.down.inputs;
    project(experts.router, normed_, routed_);
    launched(cuda_choose_experts(
        {routed_, rows_, experts.router.matrix.outputs, count, d_.normalize_experts, chosen_},
        stream_));
    launched(cuda_expert_products(
        {experts.gate_up.format, 2 * inner, experts.gate_up.inputs, experts.gate_up.weight, chosen_,
         rows_ * count, count, normed_, first_},
        stream_));
    launched(cuda_gate_rows(
        {first_, 2 * inner, {}, {}, true, d_.gate, inner_, rows_ * count, inner}, stream_));
    launched(cuda_expert_products({experts.down.format, d_.hidden, inner, experts.down.weight,
                                   chosen_, rows_ * count, 1, inner_, pairs_},
                                  stream_));
    launched(cuda_mix_experts({pairs_, chosen_, rows_, count, d_.hidden, change_}, stream_));
  }

  void head(float* logits) {
    NormRows launch = norm_launch(d_.final_norm);
    launch.normed = d_.final_norm.eps >= 0;
    std::int64_t first = begin_;
    if (d_.last_only) {
      launch.rows = 0;
      for (std::size_t s = 0; s < d_.segments.size(); ++s) {
        const std::int64_t row = d_.segments[s].begin + d_.segments[s].rows - 1 - begin_;
        if (row < 0 || row >= rows_) continue;
        if (launch.rows == 0) first = static_cast<std::int64_t>(s);
        launch.from[launch.rows++] = static_cast<std::int32_t>(row);
      }
    }
    launched(cuda_norm_rows(launch, stream_));
    project(&d_.head, 1, normed_, launch.rows, logits + first * d_.head.matrix.outputs, true);
  }

  const Decoder& d_;
  const Plan& plan_;
  std::int64_t begin_, rows_;
  float* x_;
  Half half_;
  void* stream_;
  const char* problem_ = nullptr;
  /// Norm for the pending change in change_, which has not been added to x_ yet; null if no change
  /// is pending.
  const Norm* pending_ = nullptr;
  float *normed_, *qkv_, *mixed_, *first_, *inner_, *change_, *pairs_, *routed_, *partial_;
  Chosen* chosen_;
  std::size_t segment_of_[cuda_rows] = {};
};

}  // namespace

std::int64_t cuda_decoder_scratch(const Decoder& decoder) { return Plan(decoder).bytes; }

const char* run_cuda_decoder(const Decoder& decoder, float* x, float* logits, void* scratch,
                             Half half, float* change, void* stream) {
  const Plan plan(decoder);
  std::int64_t all = 0;
  for (const Segment& each : decoder.segments) all = std::max(all, each.begin + each.rows);
  for (std::int64_t begin = 0; begin < all; begin += cuda_rows) {
    Pass pass(decoder, plan, begin, std::min(cuda_rows, all - begin), x,
              static_cast<char*>(scratch), half, change, stream);
    if (const char* const problem = pass.run(logits)) return problem;
  }
  return nullptr;
}

}  // namespace anyaccel::ops
