// Mixture-of-experts layers. Pairs of a row and an expert are sorted by expert, so that the weights
// of an expert are read once for all its rows, and unused experts are not read.
#include <algorithm>
#include <cstring>

#include "kernels/decoder/decoder_pass.h"

namespace anyaccel::ops {
namespace {

/// Returns a view of the outputs [first, first + count) of a floating-point matrix.
Matrix outputs_of(const Matrix& m, std::int64_t first, std::int64_t count) {
  Matrix out = m;
  out.outputs = count;
  out.weight =
      static_cast<const char*>(m.weight) + first * m.inputs * (m.format == Format::f32 ? 4 : 2);
  return out;
}

std::int64_t pieces_of(std::int64_t outputs, std::int64_t step) {
  return (outputs + step - 1) / step;
}

}  // namespace

bool DecoderPass::experts(const DecoderLayer& layer) {
  norm_rows(layer.post_norm);
  prepare(layer.experts.router.matrix, normed_);
  project({&layer.experts.router, 1}, routed_, false);
  choose(layer.experts);
  expert_inner(layer.experts);
  expert_outer(layer.experts);
  return finish_change(layer.after_feed_forward);
}

/// Each thread selects the experts of all rows, because that is cheaper than a barrier.
void DecoderPass::choose(const Experts& experts) {
  const std::int64_t count = d_.experts_per_token, all = experts.router.matrix.outputs,
                     pairs = rows_ * count;
  for (std::int64_t r = 0; r < rows_; ++r)
    choose_experts(routed_ + r * all, all, count, d_.normalize_experts,
                   static_cast<std::int32_t>(r), chosen_ + r * count);
  std::sort(chosen_, chosen_ + pairs, [](const Chosen& one, const Chosen& other) {
    return one.expert != other.expert ? one.expert < other.expert : one.row < other.row;
  });
  group_count_ = 0;
  for (std::int64_t i = 0; i < pairs; ++i)
    if (i == 0 || chosen_[i].expert != chosen_[i - 1].expert)
      groups_[group_count_++] = static_cast<std::int32_t>(i);
  groups_[group_count_] = static_cast<std::int32_t>(pairs);
}

DecoderPass::Group DecoderPass::group(std::int64_t i) const {
  return {chosen_[groups_[i]].expert, groups_[i], groups_[i + 1]};
}

/// Returns the prepared rows of a group. Copies them if they are not contiguous.
const void* DecoderPass::rows_of(const Group& group, const Matrix& matrix) {
  const std::int64_t bytes = prepared_bytes(matrix.format, matrix.inputs),
                     count = group.end - group.begin;
  const std::int64_t first = chosen_[group.begin].row;
  if (chosen_[group.end - 1].row - first == count - 1) return prepared_ + first * bytes;
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(gathered_ + i * bytes, prepared_ + chosen_[group.begin + i].row * bytes,
                static_cast<std::size_t>(bytes));
  return gathered_;
}

/// Computes inner_[pair], the activations between the up and down projections of the experts.
void DecoderPass::expert_inner(const Experts& experts) {
  const std::int64_t inner = experts.down.inputs, two = 2 * inner;
  const std::int64_t step = task_outputs(outputs_of(experts.gate_up, 0, inner), team_.threads());
  const std::int64_t pieces = pieces_of(inner, step);
  const Matrix* last = &experts.router.matrix;
  prepare_for(experts.gate_up, last, normed_);
  const void* rows = nullptr;
  std::int64_t gathered = -1;
  team_.tasks(group_count_ * pieces, [&](std::int64_t task) {
    const Group of = group(task / pieces);
    if (gathered != of.expert) rows = rows_of(of, experts.gate_up);
    gathered = of.expert;
    const std::int64_t begin = task % pieces * step, end = std::min(inner, begin + step),
                       n = end - begin;
    float* const other = products_ + rows_ * max_task_outputs;
    const Matrix gate = outputs_of(experts.gate_up, of.expert * two, inner);
    const Matrix up = outputs_of(experts.gate_up, of.expert * two + inner, inner);
    multiply_rows(isa_, gate, rows, of.end - of.begin, begin, end, products_, n);
    multiply_rows(isa_, up, rows, of.end - of.begin, begin, end, other, n);
    for (std::int64_t i = 0; i < of.end - of.begin; ++i) {
      gate_row(isa_, d_.gate, products_ + i * n, other + i * n, n);
      std::memcpy(inner_ + (of.begin + i) * inner + begin, products_ + i * n,
                  static_cast<std::size_t>(n) * 4);
    }
  });
}

/// Computes the weighted sums of the experts' results, and writes or adds them to target(). Each
/// task computes a few outputs for all experts, so the order of a row's sum is fixed and tasks are
/// independent.
void DecoderPass::expert_outer(const Experts& experts) {
  const std::int64_t hidden = d_.hidden,
                     bytes = prepared_bytes(experts.down.format, experts.down.inputs);
  prepare_rows(isa_, experts.down, inner_, groups_[group_count_], prepared_);
  const std::int64_t step =
      task_outputs(outputs_of(experts.down, 0, hidden), team_.threads(), group_count_);
  float* const sums = products_ + rows_ * max_task_outputs;
  team_.tasks(pieces_of(hidden, step), [&](std::int64_t task) {
    const std::int64_t begin = task * step, end = std::min(hidden, begin + step), n = end - begin;
    std::fill(sums, sums + rows_ * n, 0.0F);
    for (std::int64_t g = 0; g < group_count_; ++g) {
      const Group of = group(g);
      multiply_rows(isa_, outputs_of(experts.down, of.expert * hidden, hidden),
                    prepared_ + of.begin * bytes, of.end - of.begin, begin, end, products_, n);
      for (std::int64_t p = of.begin; p < of.end; ++p)
        for (std::int64_t i = 0; i < n; ++i)
          sums[chosen_[p].row * n + i] += chosen_[p].share * products_[(p - of.begin) * n + i];
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      float* const to = target() + r * hidden + begin;
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = adds() ? to[i] + sums[r * n + i] : sums[r * n + i];
    }
  });
}

}  // namespace anyaccel::ops
