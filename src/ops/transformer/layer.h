// Code shared by the layer's forward and backward passes on the host: memory, threading and matrix
// products. Included only by forward.cpp and backward.cpp.
#pragma once

#include <limits>
#include <new>

#include "ATen/ops/where.h"
#include "kernels/transformer/attention.h"
#include "kernels/transformer/skinny_gemm.h"
#include "ops/shared/row_tasks.h"
#include "ops/transformer/passes.h"

namespace anyaccel::ops {
namespace {

/// Aligned memory for each thread.
template <typename T>
class ThreadMemory {
 public:
  explicit ThreadMemory(std::int64_t elements, std::int64_t threads = task_threads())
      : threads_(threads),
        each_((elements + 15) / 16 * 16),
        at_(::operator new (static_cast<std::size_t>(threads_* each_) * sizeof(T),
                            std::align_val_t{64})) {}
  ~ThreadMemory() { ::operator delete (at_, std::align_val_t{64}); }
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  std::int64_t threads() const { return threads_; }
  T* of(std::int64_t thread) const { return static_cast<T*>(at_) + thread * each_; }

 private:
  std::int64_t threads_, each_;
  void* at_;
};

/// The layer's arguments in the form that host kernels take.
template <typename S>
struct Layer : LayerArguments {
  using Real = typename RealOf<S>::type;

  explicit Layer(const TransformerArguments& arguments)
      : LayerArguments(arguments), isa(best_isa()), qkvb(g.attn_qkvb.contiguous()) {
    if (g.has_mask()) {
      mask = *g.attention_mask;
      if (mask.scalar_type() == at::kBool)
        mask = at::where(mask, 0.0, -std::numeric_limits<double>::infinity());
      mask = mask.to(real_type()).expand({batch, g.heads, length, length});
    }
  }

  std::int64_t heads() const { return batch * g.heads; }
  /// Returns whether attention reads heads in place. Otherwise it reads padded or converted copies.
  bool in_place() const { return std::is_same_v<S, Real> && head_dim % 16 == 0; }
  std::int64_t padded_dim() const { return std::max<std::int64_t>(16, (head_dim + 15) / 16 * 16); }

  /// Returns the attention arguments for head `index`, except q, k, v and out.
  FullAttention<Real> head(std::int64_t index, Real* stats) const {
    FullAttention<Real> h{};
    h.length = length;
    h.dim = padded_dim();
    h.scale = static_cast<Real>(attention_scale());
    if (mask.defined()) {
      h.mask = mask.template const_data_ptr<Real>() + index / g.heads * mask.stride(0) +
               index % g.heads * mask.stride(1);
      h.mask_row = mask.stride(2);
      h.mask_column = mask.stride(3);
    }
    h.stats = stats ? stats + 2 * index * length : nullptr;
    h.dropout = attn_drop;
    h.first_row = index * length;
    return h;
  }

  Isa isa;
  Tensor qkvb, mask;
};

/// Copies the rows of one head to [length][padded] in the compute type, zero-padded. The stride
/// between rows is `row` elements.
template <typename S, typename Real>
void gather(const Layer<S>& layer, const S* from, std::int64_t row, Real* to) {
  const std::int64_t padded = layer.padded_dim();
  for (std::int64_t i = 0; i < layer.length; ++i) {
    widen(layer.isa, from + i * row, layer.head_dim, to + i * padded);
    std::fill(to + i * padded + layer.head_dim, to + (i + 1) * padded, Real{0});
  }
}

/// Copies one head back. This is the inverse of gather().
template <typename S, typename Real>
void scatter(const Layer<S>& layer, const Real* from, S* to, std::int64_t row) {
  const std::int64_t padded = layer.padded_dim();
  for (std::int64_t i = 0; i < layer.length; ++i)
    narrow(layer.isa, from + i * padded, layer.head_dim, to + i * row);
}

/// Returns the arguments for a matrix product with few rows, or nullopt if our kernels are not used
/// for it.
template <typename S>
std::optional<SkinnyGemm> skinny_gemm(const Layer<S>& layer, const Tensor& weight) {
  if constexpr (std::is_same_v<S, float>) {
    const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
    // Measured only on x86.
    const bool fast = layer.isa == Isa::avx512 || layer.isa == Isa::avx2;
    if (fast && layer.rows > 0 && layer.rows <= max_skinny_rows &&
        outputs % skinny_gemm_outputs == 0 && inputs % skinny_gemm_outputs == 0 &&
        weight.is_contiguous())
      return SkinnyGemm{layer.rows, outputs, inputs, read<float>(weight)};
  }
  return std::nullopt;
}

/// Computes product = from * weight^T. Returns false, without computing anything, if a general
/// matrix product is used instead of our kernels.
template <typename S>
bool multiply_few(const Layer<S>& layer, const Tensor& product, const Tensor& from,
                  const Tensor& weight, const Tensor& bias = {}) {
  const auto few = skinny_gemm(layer, weight);
  if (!few) return false;
  const std::int64_t piece = 128, pieces = (few->inputs + piece - 1) / piece;
  const ThreadMemory<float> packed(skinny_gemm_packed(*few), 1);
  parallel_tasks(pieces, task_threads(), [&](std::int64_t i, std::int64_t) {
    pack_skinny_gemm(layer.isa, *few, read<float>(from), i * piece,
                     std::min(few->inputs, (i + 1) * piece), packed.of(0));
  });
  parallel_tasks(few->outputs / skinny_gemm_outputs, task_threads(),
                 [&](std::int64_t i, std::int64_t) {
                   skinny_gemm_forward(layer.isa, *few, packed.of(0), read<float>(bias),
                                       i * skinny_gemm_outputs, write<float>(product));
                 });
  return true;
}

/// Computes product = from * weight^T.
template <typename S>
void multiply_weight(const Layer<S>& layer, const Tensor& product, const Tensor& from,
                     const Tensor& weight) {
  if (!multiply_few(layer, product, from, weight)) multiply(product, from, weight.t());
}

/// Computes product = from * weight, or product += from * weight with `add`.
template <typename S>
void multiply_back(const Layer<S>& layer, const Tensor& product, const Tensor& from,
                   const Tensor& weight, bool add = false) {
  const auto few = skinny_gemm(layer, weight);
  if (!few) return multiply(product, from, weight, add);
  const std::int64_t strips = few->inputs / skinny_gemm_outputs,
                     parts = std::min(strips, task_threads());
  const auto first = [&](std::int64_t part) { return part * strips / parts * skinny_gemm_outputs; };
  parallel_tasks(parts, parts, [&](std::int64_t i, std::int64_t) {
    skinny_gemm_backward(layer.isa, *few, read<float>(from), add, first(i), first(i + 1),
                         write<float>(product));
  });
}

}  // namespace
}  // namespace anyaccel::ops
