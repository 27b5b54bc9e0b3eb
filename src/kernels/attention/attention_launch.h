// What attention on CUDA is given, and how its work is divided among blocks of threads. Plain
// pointers, no torch and no CUDA.
#pragma once

#include <cstddef>

#include "kernels/common/host_device.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

constexpr int attention_lanes = 128;
constexpr int attention_rows = 64;  // most rows of a tile
constexpr int prepared_rows = 16;   // queries of a block that makes their shared sums
/// Of shared memory; what all devices from sm_80 on give a block.
constexpr std::size_t attention_most_bytes = 96 * 1024;

/// A tensor [batch, heads, rows, dim], in elements; dim is in one piece.
template <typename Pointer>
struct HeadArray {
  Pointer at;
  std::int64_t batch, head, row;
};

/// What is added to the scores [batch, heads, queries, keys]: of the arithmetic's type, of the
/// tensors', or bytes, 0 of which hides.
enum class BiasKind { none, real, element, seen };
struct AttentionBias {
  const void* at;
  std::int64_t batch, head, row, column;
  BiasKind kind;
};

template <typename Real>
struct AttentionLaunch {
  HeadArray<const void*> q, k, v, grad;
  HeadArray<void*> out;  ///< the backward pass reads it
  HeadArray<void*> dq, dk, dv;
  AttentionBias bias[3];
  Real* stats;  ///< [batch][heads][rows][2]: greatest score, 1 / sum of exp(score - greatest); both
                ///< 0 where nothing is seen; null: not wanted
  Real* delta;  ///< [batch][heads][rows], which the backward pass makes first
  Real* drpe;   ///< null, or the gradient of what is added, [drpe_batches][drpe_heads][rows][rows]:
                ///< each 1, or those of the call
  std::int64_t drpe_batches, drpe_heads;
  const unsigned char* layout;  ///< null, or [heads][blocks][blocks]: which keys' blocks a queries'
                                ///< block sees; heads `layout_head` apart
  std::int64_t layout_head, blocks;
  std::int64_t batch, heads, length;
  int dim, block;  ///< block: a multiple of 16, where there is a layout
  bool vectors;    ///< all rows that are read begin at a multiple of 16 bytes, and are whole ones
  Real scale;
  Dropout dropout;  ///< of the weights; row (batch * heads + head) * length + query, column key
};

/// The parts of both passes, in their order.
enum class AttentionStep { forward, prepare, queries, keys, positions };

struct AttentionPlan {
  int own, other;  ///< rows of tiles: 16, 32 or 64
  int own_log, other_log;
  int padded;  ///< the head dimension in whole 16s
  std::int64_t tiles, tasks;
  std::size_t bytes;  ///< of shared memory

  ANYACCEL_ON_BOTH int queries(AttentionStep step) const {
    return step == AttentionStep::keys ? other : own;
  }
  ANYACCEL_ON_BOTH int keys(AttentionStep step) const {
    return step == AttentionStep::keys ? own : other;
  }
};

/// The CUDA kernels; the answer is null, or what CUDA says.
const char* cuda_attention_forward(const AttentionLaunch<float>& launch, Element element,
                                   void* stream);
const char* cuda_attention_forward(const AttentionLaunch<double>& launch, void* stream);
const char* cuda_attention_backward(const AttentionLaunch<float>& launch, Element element,
                                    void* stream);
const char* cuda_attention_backward(const AttentionLaunch<double>& launch, void* stream);

}  // namespace anyaccel::ops
