// CUDA kernels of a decoder's pass over few rows, as plain functions. Pointers are device pointers,
// and `stream` is a cudaStream_t. Each function returns when its work is queued on the stream:
// null, or the CUDA error message. The functions neither allocate nor synchronize, so they can be
// captured. Independent of torch.
//
// rows.h, products.h, attention.h, experts.h and integers.h have the code of the thread blocks,
// which tests run on the host.
#pragma once

#include "kernels/decoder/choose_experts.h"
#include "kernels/decoder/matrix.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// Maximum rows per launch. The data of all rows fits in a kernel's arguments.
constexpr std::int64_t cuda_rows = 16;

/// Cache of a row's segment in the current layer, [kv_heads][capacity][head_dim], and the row's
/// position in it.
struct RowPlace {
  Values keys, values;
  std::int64_t position, capacity;
};

/// x[rows][columns] += change, or its norm; then to = norm of x. This merges the end of a layer and
/// the start of the next one into one pass over memory.
struct NormRows {
  float* x;
  const float* change;  ///< null: x does not change
  bool norms_change;
  Norm after;  ///< norm of the change
  float* to;   ///< [rows][columns]; null: only the sum is computed
  bool normed;
  Norm norm;  ///< norm of x; if not `normed`, `to` is a copy of x
  std::int64_t rows, columns;
  std::int32_t from[cuda_rows];  ///< row i of `to` is row from[i] of x
};
const char* cuda_norm_rows(const NormRows& launch, void* stream);

/// Normalizes and rotates the queries and keys of qkv[rows][heads + 2 * kv_heads][dim] in place,
/// and stores keys and values in the cache.
struct PositionHeads {
  float* qkv;
  std::int64_t rows, heads, kv_heads, dim;
  bool head_norms;
  Norm query_norm, key_norm;
  std::int64_t half;  ///< rotated pairs per head; 0: none
  bool interleaved;   ///< pairs are (2 i, 2 i + 1), not (i, i + half)
  const float* cos;   ///< [rows][half]
  const float* sin;
  RowPlace places[cuda_rows];
};
const char* cuda_position_heads(const PositionHeads& launch, void* stream);

/// to[row][i] = gate(from[row][i] + bias); if `gated`, times from[row][columns + i] + up_bias.
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

/// Attention of the rows' queries [heads][dim] over their caches, up to each row's own position. If
/// a row sees more than one chunk (attend_chunk() in attention.h), the chunks are processed in
/// parallel into `partial`, and a second launch combines them.
struct AttendCache {
  const float* queries;
  std::int64_t queries_row, rows, heads, kv_heads, dim;
  /// Query heads that share a key head, and how many of the first key head's query heads are on
  /// other ranks.
  std::int64_t group, first_head;
  float scale, softcap;  ///< softcap 0: none
  std::int64_t window;   ///< visible positions; 0: all
  /// Null, or [rows][positions], added to the scores of all heads. A row that sees no position
  /// gives zeros.
  const float* mask;
  std::int64_t mask_row;
  float* to;       ///< [rows][heads * dim]
  float* partial;  ///< attend_floats() floats
  Element type;    ///< rows whose caches have another type are skipped
  RowPlace places[cuda_rows];
};
const char* cuda_attend_cache(const AttendCache& launch, void* stream);

/// Matrices with the same format, group and number of inputs, and their biases. Their outputs are
/// concatenated.
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

/// chosen[row][count] from logits[row][experts], see choose_experts(); sorted by expert.
struct ChooseExperts {
  const float* logits;
  std::int64_t rows, experts, count;
  bool normalize;
  Chosen* chosen;
};
const char* cuda_choose_experts(const ChooseExperts& launch, void* stream);

/// to[pair][outputs] = the pair's row of x times its expert's matrix. The matrices are
/// [experts][outputs][inputs], in a floating-point format.
struct ExpertProducts {
  Format format;
  std::int64_t outputs, inputs;
  const void* weight;
  const Chosen* chosen;
  std::int64_t pairs, per_row;  ///< pairs that share a row of x
  const float* x;
  float* to;
};
const char* cuda_expert_products(const ExpertProducts& launch, void* stream);

/// to[row][columns] = sum of from[pair][columns], weighted by the shares of the row's pairs.
struct MixExperts {
  const float* from;
  const Chosen* chosen;
  std::int64_t rows, count, columns;
  float* to;
};
const char* cuda_mix_experts(const MixExperts& launch, void* stream);

/// Quantizes from[outputs][inputs] to weight[outputs][inputs] and scales[outputs][inputs / group],
/// like quantize_row().
struct QuantizeMatrix {
  const void* from;
  Element type;
  int bits;
  std::int64_t outputs, inputs, group;
  void* weight;
  float* scales;
};
const char* cuda_quantize_matrix(const QuantizeMatrix& launch, void* stream);

/// to[count][inputs] = the dequantized outputs from `begin` on.
struct WidenMatrix {
  Matrix matrix;
  std::int64_t begin, count;
  Element type;
  void* to;
};
const char* cuda_widen_matrix(const WidenMatrix& launch, void* stream);

}  // namespace anyaccel::ops
