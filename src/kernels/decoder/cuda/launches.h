// Functions that launch the CUDA kernels for a decoder's forward pass over a few rows. Pointers are
// device pointers, and `stream` is a cudaStream_t. Each function returns as soon as its work is
// queued on the stream, with null on success and the CUDA error message on failure. The functions
// neither allocate nor synchronize, so they can be captured into a graph. Independent of torch.
//
// The thread-block code, which tests run on the host, is in rows.h, products.h, attention.h,
// experts.h and integers.h.
#pragma once

#include "kernels/decoder/choose_experts.h"
#include "kernels/decoder/matrix.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// Maximum number of rows per launch. The per-row arguments for this many rows fit within CUDA's
/// size limit for kernel arguments.
constexpr std::int64_t cuda_rows = 16;

/// KV cache of a row's segment in the current layer, [kv_heads][capacity][head_dim], and the row's
/// position in it.
struct RowPlace {
  Values keys, values;
  std::int64_t position, capacity;
};

/// Computes x[rows][columns] += change, or x += norm(change) if `norms_change` is set. Then
/// computes to = norm(x). This fuses the end of one layer with the start of the next into a single
/// pass over memory.
struct NormRows {
  float* x;
  const float* change;  ///< null if x does not change
  bool norms_change;
  Norm after;  ///< norm that is applied to the change
  float* to;   ///< [rows][columns]; null if only x is updated
  bool normed;
  Norm norm;  ///< norm of x; unless `normed` is set, `to` is a copy of x
  std::int64_t rows, columns;
  std::int32_t from[cuda_rows];  ///< row i of `to` is computed from row from[i] of x
};
const char* cuda_norm_rows(const NormRows& launch, void* stream);

/// Normalizes and rotates the queries and keys in qkv[rows][heads + 2 * kv_heads][dim], and stores
/// keys and values in the KV cache. Only the queries are written back to `qkv`.
struct PositionHeads {
  float* qkv;
  std::int64_t rows, heads, kv_heads, dim;
  bool head_norms;
  Norm query_norm, key_norm;
  std::int64_t half;  ///< number of rotated pairs per head; 0 disables rotation
  bool interleaved;   ///< if set, pairs are (2 i, 2 i + 1), otherwise (i, i + half)
  const float* cos;   ///< [rows][half]
  const float* sin;
  RowPlace places[cuda_rows];
};
const char* cuda_position_heads(const PositionHeads& launch, void* stream);

/// Computes to[row][i] = gate(from[row][i] + bias). If `gated` is set, multiplies it by
/// from[row][columns + i] + up_bias.
struct GateRows {
  const float* from;
  std::int64_t from_row;
  Values bias, up_bias;
  bool gated;
  Gate gate;
  float* to;
  std::int64_t rows, columns;
};
const char* cuda_gate_rows(const GateRows& launch, void* stream);

/// Attention for the rows' queries [heads][dim] over their KV caches, up to each row's position. If
/// a row has more than one chunk (attend_chunk() in attention.h), its chunks are processed in
/// parallel. Their results are stored in `partial`, and a second launch combines them.
struct AttendCache {
  const float* queries;
  std::int64_t queries_row, rows, heads, kv_heads, dim;
  /// `group` is the number of query heads that share a key head. `first_head` is the number of
  /// query heads that share the first key head but belong to other ranks.
  std::int64_t group, first_head;
  float scale, softcap;  ///< softcap: 0 disables soft-capping
  std::int64_t window;   ///< sliding-window size in positions; 0: no window
  /// [rows][positions], added to the scores of all heads. May be null. If all positions of a row
  /// are masked, its result is zero.
  const float* mask;
  std::int64_t mask_row;
  float* to;       ///< [rows][heads * dim]
  float* partial;  ///< room for attend_floats() floats
  Element type;    ///< rows whose caches have a different type are skipped
  RowPlace places[cuda_rows];
};
const char* cuda_attend_cache(const AttendCache& launch, void* stream);

/// Matrices with the same format, group size and number of inputs, and their biases. Their outputs
/// are concatenated.
struct Products {
  struct Linear {
    const void* weight;
    const float* scales;
    const std::uint8_t* zeros;
    Values bias;
    std::int64_t outputs;
  };
  static constexpr int max_parts = 3;
  Format format;
  std::int64_t inputs, group;
  int parts;
  Linear part[max_parts];
  const float* x;  ///< [rows][inputs]
  std::int64_t rows;
  float* to;
  std::int64_t to_row;
};
/// A row's results are bitwise independent of the other rows.
const char* cuda_products(const Products& launch, void* stream);

/// Selects chosen[row][count] from logits[row][experts] with choose_experts(), sorted by expert.
struct ChooseExperts {
  const float* logits;
  std::int64_t rows, experts, count;
  bool normalize;
  Chosen* chosen;
};
const char* cuda_choose_experts(const ChooseExperts& launch, void* stream);

/// Computes to[pair][outputs], the product of the pair's row of x and its expert's matrix. The
/// matrices are [experts][outputs][inputs] in a floating-point format.
struct ExpertProducts {
  Format format;
  std::int64_t outputs, inputs;
  const void* weight;
  const Chosen* chosen;
  std::int64_t pairs, per_row;  ///< per_row: number of consecutive pairs that share a row of x
  const float* x;
  float* to;
};
const char* cuda_expert_products(const ExpertProducts& launch, void* stream);

/// Computes to[row][columns], the weighted sum of from[pair][columns] over the row's pairs.
struct MixExperts {
  const float* from;
  const Chosen* chosen;
  std::int64_t rows, count, columns;
  float* to;
};
const char* cuda_mix_experts(const MixExperts& launch, void* stream);

/// Quantizes from[outputs][inputs] to weight[outputs][inputs] and scales[outputs][inputs / group]
/// in the same way as quantize_row().
struct QuantizeMatrix {
  const void* from;
  Element type;
  int bits;
  std::int64_t outputs, inputs, group;
  void* weight;
  float* scales;
};
const char* cuda_quantize_matrix(const QuantizeMatrix& launch, void* stream);

/// Dequantizes the outputs [begin, begin + count) and writes them to to[count][inputs].
struct WidenMatrix {
  Matrix matrix;
  std::int64_t begin, count;
  Element type;
  void* to;
};
const char* cuda_widen_matrix(const WidenMatrix& launch, void* stream);

}  // namespace anyaccel::ops
