// Arguments of the CUDA attention kernels, and the partitioning of the work into thread blocks.
// Uses plain pointers; independent of torch and CUDA.
#pragma once

#include <cstddef>

#include "kernels/common/host_device.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

constexpr int attention_lanes = 128;
constexpr int attention_rows = 64;  // maximum number of rows per tile
constexpr int prepared_rows = 16;   // number of queries per thread block in the prepare step
/// Maximum shared memory per thread block. All devices since sm_80 support this much.
constexpr std::size_t attention_most_bytes = 96 * 1024;

/// A tensor [batch, heads, rows, dim] with strides in elements; `dim` is contiguous.
template <typename Pointer>
struct HeadArray {
  Pointer at;
  std::int64_t batch, head, row;
};

/// Element type of an attention bias, which is added to the scores and expanded to [batch, heads,
/// queries, keys]: `real` is the compute type, `element` is the type of the tensors, and `seen` is
/// a byte mask in which 0 masks a key.
enum class BiasKind { none, real, element, seen };
struct AttentionBias {
  const void* at;
  std::int64_t batch, head, row, column;
  BiasKind kind;
};

template <typename Real>
struct AttentionLaunch {
  HeadArray<const void*> q, k, v, grad;
  HeadArray<void*> out;  ///< output of the forward pass, input of the backward pass
  HeadArray<void*> dq, dk, dv;
  AttentionBias bias[3];
  /// [batch][heads][rows][2]: the maximum score and 1 / sum of exp(score - maximum). Both are 0 for
  /// a query that attends to no keys. The array is null if it is not needed.
  Real* stats;
  Real* delta;  ///< [batch][heads][rows], computed by the first step of the backward pass
  /// Gradient of the position embeddings, [drpe_batches][drpe_heads][rows][rows], or null.
  /// drpe_batches is 1 or `batch`, and drpe_heads is 1 or `heads`.
  Real* drpe;
  std::int64_t drpe_batches, drpe_heads;
  /// [heads][blocks][blocks] with a stride of `layout_head` between heads: nonzero if the query
  /// block attends to the key block; null for dense attention.
  const unsigned char* layout;
  std::int64_t layout_head, blocks;
  std::int64_t batch, heads, length;
  int dim, block;  ///< block: multiple of 16, used only with a layout
  bool vectors;    ///< whether input rows are 16-byte aligned and multiples of 16 bytes long
  Real scale;
  /// Dropout for the attention weights. The row index is (batch * heads + head) * length + query,
  /// and the column index is the key index.
  Dropout dropout;
};

/// Steps of the forward and backward passes, in execution order.
enum class AttentionStep { forward, prepare, queries, keys, positions };

struct AttentionPlan {
  int own, other;  ///< number of rows per tile: 16, 32 or 64
  int own_log, other_log;
  int padded;  ///< head dimension, rounded up to a multiple of 16
  std::int64_t tiles, tasks;
  std::size_t bytes;  ///< size of the shared memory per thread block

  ANYACCEL_ON_BOTH int queries(AttentionStep step) const {
    return step == AttentionStep::keys ? other : own;
  }
  ANYACCEL_ON_BOTH int keys(AttentionStep step) const {
    return step == AttentionStep::keys ? own : other;
  }
};

/// CUDA kernels. Each returns null on success and the CUDA error message on failure.
const char* cuda_attention_forward(const AttentionLaunch<float>& launch, Element element,
                                   void* stream);
const char* cuda_attention_forward(const AttentionLaunch<double>& launch, void* stream);
const char* cuda_attention_backward(const AttentionLaunch<float>& launch, Element element,
                                    void* stream);
const char* cuda_attention_backward(const AttentionLaunch<double>& launch, void* stream);

}  // namespace anyaccel::ops
