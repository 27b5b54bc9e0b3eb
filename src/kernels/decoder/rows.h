// What lies between the products of a decoder layer: norms, rotation, activations and attention of
// single rows, over plain arrays. Nothing here knows torch. A row's results have the same bits
// whatever rows are beside it.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Values of a norm's weight, a bias, or of a cache; null where there are none.
struct Values {
  void* data = nullptr;
  Element type = Element::f32;
};

enum class NormKind { rms, rms_plus_one, layer };
enum class Gate { silu, gelu, gelu_tanh, relu, relu2 };

struct Norm {
  NormKind kind;
  Values weight, bias;
  float eps;
};

/// The row's heads of one layer's cache, and what is seen of it.
struct CachedHead {
  const void* keys;  ///< [position][dim]
  const void* values;
  Element type;
  std::int64_t dim, begin, end;  ///< positions that are seen
  float scale, softcap;          ///< softcap 0: none
};

/// to[columns] = norm of from[columns]; may be the same.
void norm_row(Isa isa, const Norm& norm, const float* from, std::int64_t columns,
              float* to) noexcept;
/// Turns the pairs (i, i + half) of head[...] by the angles whose cos[half] and sin[half] these
/// are.
void rotate_row(Isa isa, float* head, const float* cos, const float* sin,
                std::int64_t half) noexcept;
/// row[columns] += bias, unless that is null.
void add_bias_row(Isa isa, const Values& bias, std::int64_t begin, std::int64_t columns,
                  float* row) noexcept;
/// a[columns] = gate(a), times b unless that is null.
void gate_row(Isa isa, Gate gate, float* a, const float* b, std::int64_t columns) noexcept;
/// In the type of `to`, from its element `begin`.
void store_row(Isa isa, const float* from, std::int64_t columns, const Values& to,
               std::int64_t begin) noexcept;
/// scores[count] become e^(s - the greatest s), s being scale * score, soft-capped unless softcap
/// is 0; returns their sum. count is 1 or more.
float attention_shares_row(Isa isa, float scale, float softcap, float* scores,
                           std::int64_t count) noexcept;
/// out[dim] = attention of query[dim]; `scores` has room for end - begin + 64 floats.
void attend_row(Isa isa, const CachedHead& head, const float* query, float* scores,
                float* out) noexcept;

}  // namespace anyaccel::ops
