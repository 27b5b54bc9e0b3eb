// Causal attention: checks, conversions, memory and threads.
#include <vector>

#include "ATen/ops/zeros.h"
#include "kernels/training/causal_attention.h"
#include "ops/decoder_training/passes.h"
#include "ops/shared/empty.h"
#include "ops/shared/scratch.h"

namespace anyaccel::ops {
namespace {

constexpr const char* attention_name = "training_attention";

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t window) {
  check_on_host(attention_name, "q", q);
  check_like(attention_name, "k", k, q);
  check_like(attention_name, "v", v, q);
  const auto matches = [&](const Tensor& other) {
    return other.dim() == 4 && other.size(0) == q.size(0) && other.size(2) == q.size(2) &&
           other.size(3) == q.size(3) && other.size(1) > 0 && q.size(1) % other.size(1) == 0;
  };
  if (q.dim() != 4 || !matches(k) || k.sizes() != v.sizes())
    fail_argument(attention_name, "the shapes of q, k and v do not match",
                  words(q) + ", " + words(k) + " and " + words(v),
                  "q [batch, heads, time, head_dim], k and v [batch, kv_heads, time, head_dim], "
                  "where kv_heads divides heads");
  if (q.size(3) == 0 || q.size(3) % 16)
    fail_argument(attention_name, "the head dimension is not supported", std::to_string(q.size(3)),
                  "a multiple of 16");
  if (window < 0)
    fail_argument(attention_name, "the window is out of range", std::to_string(window),
                  "0 or more");
}

struct Sequence {
  std::int64_t first, length;
};

/// The sequences in a row of `time` tokens.
std::vector<Sequence> sequences_of(const OptionalTensor& starts, std::int64_t time) {
  if (!is_given(starts)) return {{0, time}};
  const auto fail = [&](const std::string& got) {
    fail_argument(attention_name, "invalid starts", got,
                  "a 1-d int64 host tensor of ascending positions below the length, beginning "
                  "with 0");
  };
  if (starts->dim() != 1 || starts->scalar_type() != at::kLong || !starts->is_cpu() ||
      starts->numel() == 0)
    fail(words(*starts));
  const Tensor dense = starts->contiguous();
  const auto* at = dense.const_data_ptr<std::int64_t>();
  std::vector<Sequence> sequences;
  for (std::int64_t i = 0; i < dense.numel(); ++i) {
    const std::int64_t end = i + 1 < dense.numel() ? at[i + 1] : time;
    if (at[i] >= end || (i == 0 && at[0] != 0)) fail(std::to_string(at[i]));
    sequences.push_back({at[i], end - at[i]});
  }
  return sequences;
}

/// A tensor in the compute dtype whose heads have contiguous elements.
template <typename T>
Tensor real_heads(const Tensor& tensor) {
  const Tensor real = tensor.to(c10::CppTypeToScalarType<T>::value);
  return real.stride(3) == 1 ? real : real.contiguous();
}

/// The rows of one head, beginning with position `first`.
template <typename T, typename Pointer>
StridedRows<T> rows_at(Pointer at, const Tensor& tensor, std::int64_t batch, std::int64_t head,
                       std::int64_t first) {
  return {at + batch * tensor.stride(0) + head * tensor.stride(1) + first * tensor.stride(2),
          tensor.stride(2)};
}

template <typename T>
struct Work {
  Tensor q, k, v, out, stats;
  T* out_at;
  T* stats_at;
  double scale;
  std::int64_t window;

  CausalHead<T> head(std::int64_t batch, std::int64_t index, const Sequence& sequence) const {
    const std::int64_t shared = index / (q.size(1) / k.size(1));
    const auto rows = [&](const Tensor& tensor, std::int64_t at) {
      return rows_at<const T>(tensor.const_data_ptr<T>(), tensor, batch, at, sequence.first);
    };
    return {rows(q, index),
            rows(k, shared),
            rows(v, shared),
            sequence.length,
            q.size(3),
            window,
            static_cast<T>(scale),
            rows_at<T>(out_at, out, batch, index, sequence.first),
            stats_at + 2 * ((batch * q.size(1) + index) * q.size(2) + sequence.first)};
  }
};

/// [batch, heads, time, dim] as a transposed view of [batch, time, heads, dim].
Tensor make_heads(const Tensor& like, std::int64_t heads) {
  return empty({like.size(0), like.size(2), heads, like.size(3)}, like.options()).transpose(1, 2);
}

template <typename T>
Two forward_as(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window,
               const std::vector<Sequence>& sequences) {
  Work<T> work{real_heads<T>(q), real_heads<T>(k), real_heads<T>(v), {}, {}, {}, {}, scale, window};
  const std::int64_t heads = q.size(1);
  work.out = make_heads(work.q, heads);
  work.stats = empty({q.size(0), heads, q.size(2), 2}, work.q.options());
  work.out_at = work.out.template mutable_data_ptr<T>();
  work.stats_at = work.stats.template mutable_data_ptr<T>();
  struct Tile {
    Sequence sequence;
    std::int64_t query;
  };
  std::vector<Tile> tiles;
  for (const Sequence& sequence : sequences)
    for (std::int64_t query = 0; query < sequence.length; query += causal_tile)
      tiles.push_back({sequence, query});
  const auto per_head = static_cast<std::int64_t>(tiles.size());
  const Isa isa = best_isa();
  const ScratchMemory<T> scratch(causal_attention_scratch(q.size(3)));
  parallel_tasks(q.size(0) * heads * per_head, scratch.threads(),
                 [&](std::int64_t i, std::int64_t thread) {
                   const Tile& tile = tiles[static_cast<std::size_t>(i % per_head)];
                   const std::int64_t head = i / per_head;
                   causal_attention_tile(isa, work.head(head / heads, head % heads, tile.sequence),
                                         tile.query, scratch.of(thread));
                 });
  return {work.out.to(q.scalar_type()), work.stats};
}

template <typename T>
Three backward_as(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                  double scale, std::int64_t window, const std::vector<Sequence>& sequences,
                  const Tensor& out, const Tensor& stats_in) {
  const Tensor grad = real_heads<T>(grad_out), stats = stats_in.contiguous();
  Work<T> work{real_heads<T>(q),
               real_heads<T>(k),
               real_heads<T>(v),
               real_heads<T>(out),
               stats,
               {},
               {},
               scale,
               window};
  // The kernel only reads the output and the statistics.
  work.out_at = const_cast<T*>(work.out.template const_data_ptr<T>());
  work.stats_at = const_cast<T*>(stats.template const_data_ptr<T>());
  const std::int64_t batch = q.size(0), heads = q.size(1), kv_heads = k.size(1),
                     group = heads / kv_heads, count = static_cast<std::int64_t>(sequences.size());
  const ScratchMemory<T> scratch(causal_attention_scratch(q.size(3)));
  // The query heads of a group accumulate into the same key gradients. If there are too few groups
  // for the threads, each query head has its own gradients.
  const bool split = group > 1 && batch * count * kv_heads < 2 * scratch.threads();
  const std::int64_t sums = split ? heads : kv_heads, per_task = heads / sums;
  Tensor dq = make_heads(work.q, heads);
  const auto zeros = [&] {
    return at::zeros({batch, q.size(2), sums, q.size(3)}, work.q.options()).transpose(1, 2);
  };
  Tensor dk = zeros(), dv = zeros();
  const auto* grad_at = grad.const_data_ptr<T>();
  auto* dq_at = dq.mutable_data_ptr<T>();
  auto* dk_at = dk.template mutable_data_ptr<T>();
  auto* dv_at = dv.template mutable_data_ptr<T>();
  const Isa isa = best_isa();
  parallel_tasks(batch * sums * count, scratch.threads(), [&](std::int64_t i, std::int64_t thread) {
    const Sequence& sequence = sequences[static_cast<std::size_t>(i % count)];
    const std::int64_t sum = i / count % sums, entry = i / count / sums;
    for (std::int64_t head = sum * per_task; head < (sum + 1) * per_task; ++head)
      causal_attention_grad(isa, work.head(entry, head, sequence),
                            {rows_at<const T>(grad_at, grad, entry, head, sequence.first),
                             rows_at<T>(dq_at, dq, entry, head, sequence.first),
                             rows_at<T>(dk_at, dk, entry, sum, sequence.first),
                             rows_at<T>(dv_at, dv, entry, sum, sequence.first)},
                            scratch.of(thread));
  });
  const auto finish = [&](const Tensor& tensor) {
    const Tensor whole =
        split ? tensor.view({batch, kv_heads, group, q.size(2), q.size(3)}).sum(2) : tensor;
    return whole.to(q.scalar_type());
  };
  return {dq.to(q.scalar_type()), finish(dk), finish(dv)};
}

}  // namespace

Two attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                      std::int64_t window, const OptionalTensor& starts) {
  check_attention(q, k, v, window);
  const auto sequences = sequences_of(starts, q.size(2));
  return q.scalar_type() == at::kDouble ? forward_as<double>(q, k, v, scale, window, sequences)
                                        : forward_as<float>(q, k, v, scale, window, sequences);
}

Three attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                         double scale, std::int64_t window, const OptionalTensor& starts,
                         const Tensor& out, const Tensor& stats) {
  check_attention(q, k, v, window);
  check_like(attention_name, "the gradient", grad_out, q);
  check_like(attention_name, "out", out, q);
  if (grad_out.sizes() != q.sizes() || out.sizes() != q.sizes() ||
      stats.numel() != 2 * q.size(0) * q.size(1) * q.size(2) ||
      stats.scalar_type() != real_type(q.scalar_type()))
    fail_argument(attention_name, "the gradient does not match q", words(grad_out), words(q));
  const auto sequences = sequences_of(starts, q.size(2));
  return q.scalar_type() == at::kDouble
             ? backward_as<double>(grad_out, q, k, v, scale, window, sequences, out, stats)
             : backward_as<float>(grad_out, q, k, v, scale, window, sequences, out, stats);
}

}  // namespace anyaccel::ops
