// The backward pass of the layer. It reverses the steps of the forward pass and regenerates the
// dropout masks from the seed.
#include "ATen/ops/from_blob.h"
#include "ops/transformer/layer.h"

namespace anyaccel::ops {
namespace {

/// Sums over rows. Each task has separate partial sums, so the result does not depend on which
/// thread runs which task.
template <typename S>
class RowSums {
 public:
  using Real = typename RealOf<S>::type;

  /// Creates `parts` sums with `columns` elements each.
  RowSums(const Layer<S>& layer, std::int64_t parts, std::int64_t columns)
      : layer_(layer),
        tasks_((layer.rows + rows_of_task(layer.rows, columns) - 1) /
               rows_of_task(layer.rows, columns)),
        columns_(columns),
        memory_(parts * columns, std::max<std::int64_t>(1, tasks_)) {
    for (std::int64_t task = 0; task < memory_.threads(); ++task)
      std::fill_n(of(task), parts * columns, Real{0});
  }
  Real* of(std::int64_t task) const { return memory_.of(task); }
  /// Returns the sum with index `part`, added up over all tasks. Overwrites the partial sums.
  Tensor take(std::int64_t part) const {
    Real* const all = of(0) + part * columns_;
    for (std::int64_t task = 1; task < tasks_; ++task)
      column_sums<Real>(layer_.isa, of(task) + part * columns_, columns_, 0, 1, all);
    const Tensor out = layer_.empty({columns_});
    narrow(layer_.isa, all, columns_, write<S>(out));
    return out;
  }

 private:
  const Layer<S>& layer_;
  std::int64_t tasks_, columns_;
  ThreadMemory<Real> memory_;
};

/// The gradients of the four weight matrices, allocated as one block of memory. If large blocks are
/// freed individually, malloc returns their memory to the system, and later allocations fault it in
/// again page by page. Freeing one block with the total size raises malloc's threshold for
/// returning memory.
class WeightGrads {
 public:
  explicit WeightGrads(const TransformerArguments& g) {
    std::int64_t all = 0;
    for (const Tensor* weight : {&g.attn_qkvw, &g.attn_ow, &g.inter_w, &g.output_w}) {
      // If a weight does not require its gradient, the gradient is released early. In a shared
      // block, the other gradients would keep its memory allocated.
      if (!weight->requires_grad()) return;
      all += padded(*weight);
    }
    if (all * g.input.element_size() <= max_bytes) block_ = empty({all}, g.input.options());
  }
  Tensor of(const Tensor& weight) {
    if (!block_.defined()) return empty(weight.sizes(), weight.options());
    void* const at = static_cast<char*>(block_.mutable_data_ptr()) + used_ * weight.element_size();
    used_ += padded(weight);
    return at::from_blob(
        at, weight.sizes(), [block = block_](void*) {}, weight.options());
  }

 private:
  static constexpr std::int64_t max_bytes = 32 << 20;  ///< malloc keeps blocks up to this size
  static std::int64_t padded(const Tensor& weight) { return (weight.numel() + 63) / 64 * 64; }

  Tensor block_;
  std::int64_t used_ = 0;
};

template <typename S>
void norm_grads(const Layer<S>& layer, const NormGrad<S>& pass, const RowSums<S>& sums) {
  const ThreadMemory<typename RealOf<S>::type> scratch(layer.hidden);
  parallel_rows(layer.rows, layer.hidden,
                [&](std::int64_t begin, std::int64_t end, std::int64_t thread, std::int64_t task) {
                  norm_grad(layer.isa, pass, begin, end, sums.of(task), scratch.of(thread));
                });
}

template <typename S>
void attention_grad(const Layer<S>& layer, const TransformerKept& kept, const Tensor& grad_out,
                    const Tensor& grad_qkv) {
  using Real = typename RealOf<S>::type;
  const std::int64_t hidden = layer.hidden, row = 3 * hidden, length = layer.length,
                     dim = layer.head_dim;
  const S* const from = read<S>(kept.qkv);
  const S* const grads = read<S>(grad_out);
  // The kernel does not write to `out` and `stats`.
  S* const out = const_cast<S*>(read<S>(kept.attn_out));
  Real* const stats = const_cast<Real*>(read<Real>(kept.attn_stats));
  S* const to = write<S>(grad_qkv);
  const std::int64_t padded = layer.padded_dim(), each = length * padded;
  const auto offset = [&](std::int64_t index, std::int64_t step) {
    return index / layer.g.heads * length * step + index % layer.g.heads * dim;
  };
  if (layer.in_place()) {
    if constexpr (std::is_same_v<S, Real>) {
      const ThreadMemory<Real> scratch(full_attention_scratch(padded));
      parallel_tasks(layer.heads(), scratch.threads(),
                     [&](std::int64_t index, std::int64_t thread) {
                       auto head = layer.head(index, stats);
                       head.q = from + offset(index, row);
                       head.k = head.q + hidden;
                       head.v = head.k + hidden;
                       head.row = row;
                       head.out = out + offset(index, hidden);
                       head.out_row = hidden;
                       Real* const at = to + offset(index, row);
                       full_attention_grad(
                           layer.isa, head,
                           {grads + offset(index, hidden), at, at + hidden, at + 2 * hidden, row},
                           scratch.of(thread));
                     });
    }
    return;
  }
  const std::int64_t own = full_attention_scratch(padded);
  const ThreadMemory<Real> scratch(own + 8 * each);
  parallel_tasks(layer.heads(), scratch.threads(), [&](std::int64_t index, std::int64_t thread) {
    Real* const at = scratch.of(thread) + own;
    for (int i = 0; i < 3; ++i)
      gather(layer, from + offset(index, row) + i * hidden, row, at + i * each);
    gather(layer, out + offset(index, hidden), hidden, at + 3 * each);
    gather(layer, grads + offset(index, hidden), hidden, at + 4 * each);
    auto head = layer.head(index, stats);
    head.q = at;
    head.k = at + each;
    head.v = at + 2 * each;
    head.out = at + 3 * each;
    head.row = head.out_row = padded;
    full_attention_grad(layer.isa, head,
                        {at + 4 * each, at + 5 * each, at + 6 * each, at + 7 * each, padded},
                        scratch.of(thread));
    for (int i = 0; i < 3; ++i)
      scatter(layer, at + (5 + i) * each, to + offset(index, row) + i * hidden, row);
  });
}

template <typename S>
TransformerBackward backward_as(const TransformerArguments& g, const Tensor& grad_output,
                                const Tensor& output, const TransformerKept& kept) {
  const Layer<S> layer(g);
  const std::int64_t rows = layer.rows, hidden = layer.hidden, inter = layer.inter;
  const bool pre = g.pre_layer_norm, drops = layer.out_drop.threshold != 0;
  const Tensor grad_out = grad_output.contiguous().view({rows, hidden});
  WeightGrads weight_grads(g);

  // Gradients of the sum before the last norm (with pre_layer_norm: of the output itself), and of
  // the second matrix product in the feed-forward part.
  const Tensor grad_sum = pre ? Tensor() : layer.empty({rows, hidden});
  const Tensor dropped = drops ? layer.empty({rows, hidden}) : Tensor();
  const RowSums<S> last_sums(layer, 3, hidden);
  norm_grads(layer, last_norm_grad<S>(layer, kept, output, grad_out, grad_sum, dropped), last_sums);
  const Tensor grad_ff2 = drops ? dropped : pre ? grad_out : grad_sum;

  Tensor grad_inter = layer.empty({rows, inter});
  const Gelu<S> activation{inter, read<S>(kept.gelu_inp), read<S>(layer.inter_b),
                           write<S>(grad_inter), g.tanh()};
  Tensor ff2_inp = kept.ff2_inp;
  if (g.gelu_checkpoint) {
    ff2_inp = grad_inter;
    parallel_rows(rows, inter,
                  [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
                    gelu(layer.isa, activation, begin, end);
                  });
  }
  const Tensor grad_output_w = weight_grads.of(g.output_w),
               grad_inter_w = weight_grads.of(g.inter_w);
  multiply(grad_output_w, grad_ff2.t(), ff2_inp);
  multiply_back(layer, grad_inter, grad_ff2, g.output_w);
  const RowSums<S> inter_sums(layer, 1, inter);
  parallel_rows(
      rows, inter, [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t task) {
        gelu_grad(layer.isa, activation, write<S>(grad_inter), begin, end, inter_sums.of(task));
      });
  multiply(grad_inter_w, grad_inter.t(), kept.ff1_inp);
  const Tensor grad_ff1 = pre ? layer.empty({rows, hidden}) : grad_sum;
  multiply_back(layer, grad_ff1, grad_inter, g.inter_w, !pre);

  // Gradients of the sum before the norm after attention, and of the matrix product with the
  // attention output weight.
  const Tensor grad_residual = layer.empty({layer.batch, layer.length, hidden});
  const RowSums<S> middle_sums(layer, 3, hidden);
  norm_grads(layer, middle_norm_grad<S>(layer, kept, grad_ff1, grad_out, grad_residual, dropped),
             middle_sums);
  const Tensor residual_rows = grad_residual.view({rows, hidden});
  const Tensor grad_projected = drops ? dropped : residual_rows;

  const Tensor grad_ow = weight_grads.of(g.attn_ow), grad_qkvw = weight_grads.of(g.attn_qkvw);
  multiply(grad_ow, grad_projected.t(), kept.attn_out);
  const Tensor grad_attention = pre ? grad_ff1 : layer.empty({rows, hidden});
  multiply_back(layer, grad_attention, grad_projected, g.attn_ow);
  const Tensor grad_qkv = layer.empty({rows, 3 * hidden});
  attention_grad(layer, kept, grad_attention, grad_qkv);
  const RowSums<S> qkv_sums(layer, 1, 3 * hidden);
  parallel_rows(
      rows, 3 * hidden, [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t task) {
        column_sums(layer.isa, read<S>(grad_qkv), 3 * hidden, begin, end, qkv_sums.of(task));
      });
  multiply(grad_qkvw, grad_qkv.t(), pre ? kept.inp_norm : layer.input);

  Tensor grad_input = grad_residual;
  std::optional<RowSums<S>> first_sums;
  if (pre) {
    multiply_back(layer, grad_attention, grad_qkv, g.attn_qkvw);
    grad_input = layer.empty({layer.batch, layer.length, hidden});
    norm_grads(layer, first_norm_grad<S>(layer, kept, grad_attention, residual_rows, grad_input),
               first_sums.emplace(layer, 3, hidden));
  } else {
    multiply_back(layer, residual_rows, grad_qkv, g.attn_qkvw, true);
  }
  const RowSums<S>& norm_sums = first_sums ? *first_sums : last_sums;
  return {grad_input,          grad_qkvw,           qkv_sums.take(0),    grad_ow,
          middle_sums.take(2), middle_sums.take(0), middle_sums.take(1), grad_inter_w,
          inter_sums.take(0),  grad_output_w,       last_sums.take(2),   norm_sums.take(0),
          norm_sums.take(1)};
}

}  // namespace

TransformerBackward transformer_backward(const TransformerArguments& arguments,
                                         const Tensor& grad_out, const Tensor& output,
                                         const TransformerKept& kept) {
  return for_type(arguments, [&](auto element) {
    return backward_as<decltype(element)>(arguments, grad_out, output, kept);
  });
}

}  // namespace anyaccel::ops
