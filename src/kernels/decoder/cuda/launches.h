// The CUDA kernels of a decoder's pass over few rows, as plain functions: addresses are the
// device's, `stream` is a cudaStream_t. They return when the work is in the stream: null, or what
// CUDA says. None allocates or waits, so a stream may be captured meanwhile. No torch.
//
// What blocks do stands in rows.h, products.h, attention.h, experts.h and integers.h, which the
// host runs in tests.
#pragma once

#include "kernels/decoder/choose_experts.h"
#include "kernels/decoder/matrix.h"
#include "kernels/decoder/rows.h"

namespace anyaccel::ops {

/// Rows of one launch; what a launch is told of each fits a kernel's arguments.
constexpr std::int64_t cuda_rows = 16;

/// Where a row stands: its segment's cache of the layer at work, [kv_heads][capacity][head_dim],
/// and its position there.
struct RowPlace {
  Values keys, values;
  std::int64_t position, capacity;
};

/// x[rows][columns] += change, or its norm; to = norm of x. What a layer's end and the next one's
/// begin do, in one pass over memory.
struct NormRows {
  float* x;
  const float* change;  ///< null: x stays
  bool norms_change;
  Norm after;  ///< of the change
  float* to;   ///< [rows][columns]; null: only the sum is wanted
  bool normed;
  Norm norm;  ///< of x; where it is not `normed`, `to` is a copy
  std::int64_t rows, columns;
  std::int32_t from[cuda_rows];  ///< the row of x that becomes row i of `to`
};
const char* cuda_norm_rows(const NormRows& launch, void* stream);

/// Queries and keys of qkv[rows][heads + 2 * kv_heads][dim] are normed and turned to their
/// position, in place and in the cache; values go into the cache.
struct PositionHeads {
  float* qkv;
  std::int64_t rows, heads, kv_heads, dim;
  bool head_norms;
  Norm query_norm, key_norm;
  std::int64_t half;  ///< pairs of a head that are turned; 0: none
  bool interleaved;   ///< pairs are (2 i, 2 i + 1), not (i, i + half)
  const float* cos;   ///< [rows][half]
  const float* sin;
  RowPlace places[cuda_rows];
};
const char* cuda_position_heads(const PositionHeads& launch, void* stream);

/// to[row][i] = gate(from[row][i] + bias), times from[row][columns + i] + up_bias where it is
/// gated.
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

/// Attention of the rows' queries [heads][dim] over their caches, up to each row's own position.
/// Where a row sees more than a chunk (attend_chunk() of attention.h), chunks are done side by side
/// into `partial` and put together by a second launch.
struct AttendCache {
  const float* queries;
  std::int64_t queries_row, rows, heads, kv_heads, dim;
  std::int64_t group,
      first_head;        ///< heads that share a key, and how many of the first one's are elsewhere
  float scale, softcap;  ///< softcap 0: none
  std::int64_t window;   ///< positions that are seen; 0: all
  const float* mask;  ///< null, or [rows][positions] added to the scores of all heads; a row that
                      ///< sees nothing gives zeros
  std::int64_t mask_row;
  float* to;       ///< [rows][heads * dim]
  float* partial;  ///< attend_floats() of them
  Element type;    ///< rows whose caches are of another type are left out
  RowPlace places[cuda_rows];
};
const char* cuda_attend_cache(const AttendCache& launch, void* stream);

/// Matrices of one format, group and number of inputs, and their biases; their outputs lie one
/// behind the other.
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
/// A row's results have the same bits whatever rows are beside it.
const char* cuda_products(const Products& launch, void* stream);

/// chosen[row][count] of logits[row][experts]: see choose_experts(); in the order of the experts.
struct ChooseExperts {
  const float* logits;
  std::int64_t rows, experts, count;
  bool normalize;
  Chosen* chosen;
};
const char* cuda_choose_experts(const ChooseExperts& launch, void* stream);

/// to[pair][outputs]: the pair's row of x with its expert's matrix of [experts][outputs][inputs]
/// floats.
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

/// to[row][columns] = sum of from[pair][columns] by the shares of the row's pairs.
struct MixExperts {
  const float* from;
  const Chosen* chosen;
  std::int64_t rows, count, columns;
  float* to;
};
const char* cuda_mix_experts(const MixExperts& launch, void* stream);

/// weight[outputs][inputs] and scales[outputs][inputs / group] of from[outputs][inputs], as
/// quantize_row() makes them.
struct QuantizeMatrix {
  const void* from;
  Element type;
  int bits;
  std::int64_t outputs, inputs, group;
  void* weight;
  float* scales;
};
const char* cuda_quantize_matrix(const QuantizeMatrix& launch, void* stream);

/// to[count][inputs] = the values of the outputs from `begin` on.
struct WidenMatrix {
  Matrix matrix;
  std::int64_t begin, count;
  Element type;
  void* to;
};
const char* cuda_widen_matrix(const WidenMatrix& launch, void* stream);

}  // namespace anyaccel::ops
