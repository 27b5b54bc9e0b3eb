#include "kernels/decoder/decoder.h"

#include <algorithm>
#include <cstring>

#include "kernels/decoder/decoder_pass.h"
#include "kernels/decoder/scratch.h"

namespace anyaccel::ops {
namespace {

// Number of weight bytes per task. Reading this many bytes takes far longer than scheduling a task.
constexpr std::int64_t task_bytes = 64 * 1024;

std::int64_t bytes_of(const Matrix& m) {
  switch (m.format) {
    case Format::f32: return m.inputs * 4;
    case Format::bf16:
    case Format::fp16: return m.inputs * 2;
    case Format::int8: return m.inputs;
    case Format::int4: break;
  }
  return m.inputs / 2;
}

std::int64_t outputs_of(const std::vector<Linear>& parts) {
  std::int64_t sum = 0;
  for (const Linear& part : parts) sum += part.matrix.outputs;
  return sum;
}

}  // namespace

std::int64_t task_outputs(const Matrix& m, std::int64_t threads, std::int64_t times) {
  const std::int64_t by_size = task_bytes / std::max<std::int64_t>(1, bytes_of(m) * times);
  const std::int64_t by_threads = m.outputs / (4 * threads);
  return std::clamp(std::min(by_size, by_threads) / 16 * 16, std::int64_t{16}, max_task_outputs);
}

DecoderPlan::DecoderPlan(const Decoder& d) {
  rows = d.segments.empty() ? 0 : d.segments.back().begin + d.segments.back().rows;
  std::int64_t seen = 0;
  for (const Segment& each : d.segments) seen = std::max(seen, each.past + each.rows);
  qkv_columns = d.layers.empty() ? 0 : outputs_of(d.layers[0].qkv);
  mixed_columns = d.heads * d.head_dim;
  const std::int64_t pairs = rows * d.experts_per_token;
  std::int64_t max_inner = rows * d.inner, max_routed = 0, max_prepared = 0, max_gathered = 0;
  const auto prepare = [&](const Matrix& m, std::int64_t count) {
    max_prepared = std::max(max_prepared, count * prepared_bytes(m.format, m.inputs));
  };
  for (const DecoderLayer& layer : d.layers) {
    for (const Linear& part : layer.qkv) prepare(part.matrix, rows);
    for (const Linear& part : layer.up) prepare(part.matrix, rows);
    prepare(layer.output.matrix, rows);
    prepare(layer.down.matrix, rows);
    const Experts& experts = layer.experts;
    if (experts.router.matrix.outputs == 0) continue;
    prepare(experts.router.matrix, rows);
    prepare(experts.gate_up, rows);
    prepare(experts.down, pairs);
    max_inner = std::max(max_inner, pairs * experts.down.inputs);
    max_routed = std::max(max_routed, rows * experts.router.matrix.outputs);
    max_gathered = std::max(max_gathered,
                            rows * prepared_bytes(experts.gate_up.format, experts.gate_up.inputs));
  }
  prepare(d.head.matrix, rows);
  shared = own = 0;
  qkv = place(shared, rows * qkv_columns * 4);
  mixed = place(shared, rows * mixed_columns * 4);
  inner = place(shared, max_inner * 4);
  change = place(shared, rows * d.hidden * 4);
  routed = place(shared, max_routed * 4);
  normed = place(own, rows * d.hidden * 4);
  prepared = place(own, max_prepared);
  scores = place(own, (seen + 128) * 4);
  products = place(own, 2 * rows * max_task_outputs * 4);
  gathered = place(own, max_gathered);
  chosen = place(own, pairs * static_cast<std::int64_t>(sizeof(Chosen)));
  groups = place(own, (pairs + 1) * 4);
}

DecoderPass::DecoderPass(Isa isa, const Decoder& d, float* x, float* logits, char* scratch,
                         const DecoderPlan& plan, Team& team, Half half, float* change)
    : isa_(isa),
      d_(d),
      x_(x),
      rows_(plan.rows),
      logits_(logits),
      plan_(plan),
      team_(team),
      half_(half),
      out_(change) {
  const auto floats = [](char* at) { return reinterpret_cast<float*>(at); };
  qkv_ = floats(scratch + plan.qkv);
  mixed_ = floats(scratch + plan.mixed);
  inner_ = floats(scratch + plan.inner);
  change_ = floats(scratch + plan.change);
  routed_ = floats(scratch + plan.routed);
  char* own = scratch + plan.shared + team.thread() * plan.own;
  normed_ = floats(own + plan.normed);
  prepared_ = own + plan.prepared;
  scores_ = floats(own + plan.scores);
  products_ = floats(own + plan.products);
  gathered_ = own + plan.gathered;
  chosen_ = reinterpret_cast<Chosen*>(own + plan.chosen);
  groups_ = reinterpret_cast<std::int32_t*>(own + plan.groups);
  for (std::size_t i = 0; i < d.segments.size(); ++i)
    std::fill_n(segment_of_.begin() + d.segments[i].begin, d.segments[i].rows, i);
}

void DecoderPass::run() {
  for (std::size_t i = 0; i < d_.layers.size(); ++i) {
    if (half_ != Half::feed_forward && !attention(d_.layers[i])) return;
    next_ = i + 1 < d_.layers.size() ? &d_.layers[i + 1].qkv[0].matrix : &d_.head.matrix;
    if (half_ != Half::attention && !feed_forward(d_.layers[i])) return;
  }
  if (d_.head.matrix.outputs == 0) return;
  logits();
}

void DecoderPass::norm_rows(const Norm& norm) {
  for (std::int64_t r = 0; r < rows_; ++r)
    norm_row(isa_, norm, x_ + r * d_.hidden, d_.hidden, normed_ + r * d_.hidden);
}

void DecoderPass::logits() {
  if (d_.last_only) rows_ = static_cast<std::int64_t>(d_.segments.size());
  for (std::int64_t r = 0; r < rows_; ++r) {
    const std::int64_t row = d_.last_only ? last_row(r) : r;
    if (d_.final_norm.eps >= 0)
      norm_row(isa_, d_.final_norm, x_ + row * d_.hidden, d_.hidden, normed_ + r * d_.hidden);
    else
      std::memcpy(normed_ + r * d_.hidden, x_ + row * d_.hidden,
                  static_cast<std::size_t>(d_.hidden) * 4);
  }
  prepare(d_.head.matrix, normed_);
  project({&d_.head, 1}, logits_, false);
}

void DecoderPass::prefetch(const Matrix& matrix) {
  const std::int64_t threads = team_.threads(), row = bytes_of(matrix);
  const std::int64_t begin = matrix.outputs * team_.thread() / threads;
  team_.prefetch(static_cast<const char*>(matrix.weight) + begin * row,
                 matrix.outputs / threads * row);
}

void DecoderPass::prepare_for(const Matrix& matrix, const Matrix*& last, const float* from) {
  if (last && last->format == matrix.format && last->group == matrix.group) return;
  last = &matrix;
  prepare(matrix, from);
}

void DecoderPass::project(Parts parts, float* to, bool add, const float* from) {
  std::int64_t columns = 0, count = 0;
  for (std::size_t i = 0; i < parts.count; ++i) {
    const Matrix& m = parts.first[i].matrix;
    const std::int64_t step = task_outputs(m, team_.threads());
    columns += m.outputs;
    count += (m.outputs + step - 1) / step;
  }
  const Matrix* last = from ? nullptr : &parts.first[0].matrix;
  team_.tasks(count, [&](std::int64_t task) {
    std::int64_t column = 0;
    for (const Linear* part = parts.first;; ++part) {
      const Matrix& m = part->matrix;
      const std::int64_t step = task_outputs(m, team_.threads());
      const std::int64_t tasks = (m.outputs + step - 1) / step;
      if (task >= tasks) {
        task -= tasks;
        column += m.outputs;
        continue;
      }
      if (from) prepare_for(m, last, from);
      const std::int64_t begin = task * step, end = std::min(m.outputs, begin + step);
      products(*part, begin, end, to + column + begin, columns, add);
      return;
    }
  });
}

void DecoderPass::products(const Linear& part, std::int64_t begin, std::int64_t end, float* to,
                           std::int64_t to_row, bool add) {
  const std::int64_t n = end - begin;
  if (!add && !part.bias.data)
    return multiply_rows(isa_, part.matrix, prepared_, rows_, begin, end, to, to_row);
  multiply_rows(isa_, part.matrix, prepared_, rows_, begin, end, products_, n);
  for (std::int64_t r = 0; r < rows_; ++r) {
    add_bias_row(isa_, part.bias, begin, n, products_ + r * n);
    float* row = to + r * to_row;
    if (add)
      for (std::int64_t i = 0; i < n; ++i) row[i] += products_[r * n + i];
    else
      std::memcpy(row, products_ + r * n, static_cast<std::size_t>(n) * 4);
  }
}

bool DecoderPass::add_change(const Linear& part, const float* from, const Norm& norm) {
  prepare(part.matrix, from);
  project({&part, 1}, target(), adds());
  return finish_change(norm);
}

bool DecoderPass::finish_change(const Norm& norm) {
  if (half_ != Half::whole || adds()) return true;
  const auto idle = [](void* team) { static_cast<Team*>(team)->ask(); };
  const std::int64_t count = rows_ * d_.hidden;
  if (sums_ && !team_.alone([&] {
        d_.sum.add_up(d_.sum.group, change_, count, idle, &team_);
        if (!d_.norms_after)
          for (std::int64_t i = 0; i < count; ++i) x_[i] += change_[i];
      }))
    return false;
  if (!d_.norms_after) return true;
  team_.tasks(rows_, [&](std::int64_t r) {
    float* change = change_ + r * d_.hidden;
    norm_row(isa_, norm, change, d_.hidden, change);
    for (std::int64_t i = 0; i < d_.hidden; ++i) x_[r * d_.hidden + i] += change[i];
  });
  return true;
}

void DecoderPass::position_head(const DecoderLayer& layer, const Norm& norm, std::int64_t row,
                                float* head) {
  if (d_.head_norms) norm_row(isa_, norm, head, d_.head_dim, head);
  if (d_.half)
    rotate_row(isa_, head, layer.cos + row * d_.half, layer.sin + row * d_.half, d_.half);
}

bool DecoderPass::attention(const DecoderLayer& layer) {
  sums_ = d_.sum.add_up && d_.sum.attention;
  norm_rows(layer.input_norm);
  prefetch(layer.output.matrix);
  project({layer.qkv.data(), layer.qkv.size()}, qkv_, false, normed_);
  team_.tasks(rows_ * d_.kv_heads, [&](std::int64_t task) {
    const std::int64_t row = task / d_.kv_heads, head = task % d_.kv_heads;
    const Cache& cache = cache_of(layer, row);
    const std::int64_t at = (head * segment_of(row).capacity + position_of(row)) * d_.head_dim;
    float* key = qkv_head(row, d_.heads + head);
    position_head(layer, layer.key_norm, row, key);
    store_row(isa_, key, d_.head_dim, cache.keys, at);
    store_row(isa_, qkv_head(row, d_.heads + d_.kv_heads + head), d_.head_dim, cache.values, at);
  });
  team_.tasks(rows_ * d_.heads, [&](std::int64_t task) {
    const std::int64_t row = task / d_.heads, head = task % d_.heads, end = position_of(row) + 1;
    const Cache& cache = cache_of(layer, row);
    const std::int64_t offset =
        d_.key_head(head) * segment_of(row).capacity * d_.head_dim * size_of(cache.keys.type);
    float* query = qkv_head(row, head);
    position_head(layer, layer.query_norm, row, query);
    attend_row(isa_,
               {static_cast<const char*>(cache.keys.data) + offset,
                static_cast<const char*>(cache.values.data) + offset, cache.keys.type, d_.head_dim,
                layer.window > 0 ? std::max<std::int64_t>(0, end - layer.window) : 0, end,
                layer.scale, d_.softcap},
               query, scores_, mixed_ + row * plan_.mixed_columns + head * d_.head_dim);
  });
  if (!layer.up.empty()) prefetch(layer.up[0].matrix);
  return add_change(layer.output, mixed_, layer.after_attention);
}

bool DecoderPass::feed_forward(const DecoderLayer& layer) {
  sums_ = d_.sum.add_up && d_.sum.feed_forward;
  if (layer.experts.router.matrix.outputs) return experts(layer);
  norm_rows(layer.post_norm);
  prefetch(layer.down.matrix);
  const Linear& gate = layer.up[0];
  const std::int64_t step = std::min(task_outputs(gate.matrix, team_.threads()), max_task_outputs);
  const Matrix* last = nullptr;
  prepare_for(gate.matrix, last, normed_);
  team_.tasks((d_.inner + step - 1) / step, [&](std::int64_t task) {
    const std::int64_t begin = task * step, end = std::min(d_.inner, begin + step), n = end - begin;
    float* const other = products_ + rows_ * max_task_outputs;
    if (d_.gated) {
      prepare_for(layer.up[1].matrix, last, normed_);
      multiply_rows(isa_, layer.up[1].matrix, prepared_, rows_, begin, end, other, n);
      prepare_for(gate.matrix, last, normed_);
    }
    multiply_rows(isa_, gate.matrix, prepared_, rows_, begin, end, products_, n);
    for (std::int64_t r = 0; r < rows_; ++r) {
      float* a = products_ + r * n;
      add_bias_row(isa_, gate.bias, begin, n, a);
      if (d_.gated) add_bias_row(isa_, layer.up[1].bias, begin, n, other + r * n);
      gate_row(isa_, d_.gate, a, d_.gated ? other + r * n : nullptr, n);
      std::memcpy(inner_ + r * d_.inner + begin, a, static_cast<std::size_t>(n) * 4);
    }
  });
  prefetch(*next_);
  return add_change(layer.down, inner_, layer.after_feed_forward);
}

std::int64_t decoder_scratch(const Decoder& decoder, std::int64_t threads) {
  const DecoderPlan plan(decoder);
  return plan.shared + threads * plan.own;
}

void run_decoder(Isa isa, const Decoder& decoder, float* x, float* logits, void* scratch,
                 std::int64_t threads, Half half, float* change) {
  const DecoderPlan plan(decoder);
  run_team(threads, [&](Team& team) {
    DecoderPass(isa, decoder, x, logits, static_cast<char*>(scratch), plan, team, half, change)
        .run();
  });
}

}  // namespace anyaccel::ops
