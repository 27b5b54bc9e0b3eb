// The steps of a decoder layer between matrix products: norms, rotary embeddings, activations, and
// attention for single rows, on plain arrays. Independent of torch. A row's results are bitwise
// independent of other rows.
#pragma once

#include <cstdint>

#include "kernels/decoder/gate.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// An array of values of type `type`: a norm's weight, a bias or a KV cache. `data` is null if
/// there is none.
struct Values {
  void* data = nullptr;
  Element type = Element::f32;
};

enum class NormKind { rms, rms_plus_one, layer };

struct Norm {
  NormKind kind;
  Values weight, bias;
  float eps;
};

/// The KV cache of one head in one layer, and the positions that are visible to a row.
struct CachedHead {
  const void* keys;  ///< [position][dim]
  const void* values;
  Element type;
  std::int64_t dim, begin, end;  ///< visible positions
  float scale, softcap;          ///< softcap: 0 disables soft-capping
};

/// Sets to[columns] to the normalized from[columns]. Both may be the same array.
void norm_row(Isa isa, const Norm& norm, const float* from, std::int64_t columns,
              float* to) noexcept;
/// Rotates the pairs (i, i + half) of `head` by the angles whose cosines and sines are cos[half]
/// and sin[half].
void rotate_row(Isa isa, float* head, const float* cos, const float* sin,
                std::int64_t half) noexcept;
/// Adds the elements [begin, begin + columns) of `bias` to row[columns]. No-op if `bias` is null.
void add_bias_row(Isa isa, const Values& bias, std::int64_t begin, std::int64_t columns,
                  float* row) noexcept;
/// Computes a = gate(a) for a[columns]. Multiplies the result by `b` unless `b` is null.
void gate_row(Isa isa, Gate gate, float* a, const float* b, std::int64_t columns) noexcept;
/// Converts from[columns] to the type of `to` and stores the result in `to`, starting at element
/// `begin`.
void store_row(Isa isa, const float* from, std::int64_t columns, const Values& to,
               std::int64_t begin) noexcept;
/// Replaces scores[count] with e^(s - maximum) and returns the sum of the results. s is scale *
/// score, soft-capped unless `softcap` is 0. `count` is at least 1.
float attention_shares_row(Isa isa, float scale, float softcap, float* scores,
                           std::int64_t count) noexcept;
/// Computes out[dim], the attention output for query[dim]. `scores` has room for end - begin + 64
/// floats.
void attend_row(Isa isa, const CachedHead& head, const float* query, float* scores,
                float* out) noexcept;

}  // namespace anyaccel::ops
