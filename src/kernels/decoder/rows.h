// The steps of a decoder layer between products: norms, rotation, activations and attention of
// single rows, over plain arrays. Independent of torch. A row's results are bitwise independent of
// the other rows.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Values of a norm's weight, a bias or a cache; null if there are none.
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

/// A row's head in the cache of one layer, and the visible positions.
struct CachedHead {
  const void* keys;  ///< [position][dim]
  const void* values;
  Element type;
  std::int64_t dim, begin, end;  ///< visible positions
  float scale, softcap;          ///< softcap 0: none
};

/// to[columns] = norm of from[columns]; both may be the same array.
void norm_row(Isa isa, const Norm& norm, const float* from, std::int64_t columns,
              float* to) noexcept;
/// Rotates the pairs (i, i + half) of `head` by the angles with the given cos[half] and sin[half].
void rotate_row(Isa isa, float* head, const float* cos, const float* sin,
                std::int64_t half) noexcept;
/// row[columns] += bias from its element `begin` on, unless it is null.
void add_bias_row(Isa isa, const Values& bias, std::int64_t begin, std::int64_t columns,
                  float* row) noexcept;
/// a[columns] = gate(a), times b unless b is null.
void gate_row(Isa isa, Gate gate, float* a, const float* b, std::int64_t columns) noexcept;
/// Converts a row to the type of `to`, and stores it from element `begin` on.
void store_row(Isa isa, const float* from, std::int64_t columns, const Values& to,
               std::int64_t begin) noexcept;
/// Replaces scores[count] by e^(s - maximum), where s is scale * score, soft-capped unless softcap
/// is 0. Returns their sum. `count` is at least 1.
float attention_shares_row(Isa isa, float scale, float softcap, float* scores,
                           std::int64_t count) noexcept;
/// out[dim] = attention of query[dim]; `scores` has room for end - begin + 64 floats.
void attend_row(Isa isa, const CachedHead& head, const float* query, float* scores,
                float* out) noexcept;

}  // namespace anyaccel::ops
