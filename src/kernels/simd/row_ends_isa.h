// Loads, stores and loops for rows whose length is not a multiple of the vector width.
#if defined(ANYACCEL_SIMD_ROW_ENDS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_ROW_ENDS_ISA_H)
#undef ANYACCEL_SIMD_ROW_ENDS_ISA_H
#else
#define ANYACCEL_SIMD_ROW_ENDS_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

#if ANYACCEL_WIDTH == 16
inline __mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
/// Copies the first n elements and zero-fills `to` up to the vector width.
inline void pad(const float* from, std::int64_t n, float* to) {
  _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(first_lanes(n), from));
}
template <typename S>
inline void pad(const S* from, std::int64_t n, S* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_maskz_loadu_epi16(first_lanes(n), from));
}
inline void copy(const float* from, std::int64_t n, float* to) {
  _mm512_mask_storeu_ps(to, first_lanes(n), _mm512_loadu_ps(from));
}
template <typename S>
inline void copy(const S* from, std::int64_t n, S* to) {
  _mm256_mask_storeu_epi16(to, first_lanes(n),
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#else
/// Copies the first n elements and zero-fills `to` up to the vector width.
template <typename S>
inline void pad(const S* from, std::int64_t n, S* to) {
  for (int i = 0; i < Vec::width; ++i) to[i] = i < n ? from[i] : S{};
}
template <typename S>
inline void copy(const S* from, std::int64_t n, S* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}
#endif

/// Loads the first n elements (at least one) and sets the other lanes to 0.
template <typename S>
inline Vec load_some(const S* from, std::int64_t n) {
  if (Vec::width == 1 || n >= Vec::width) return Vec::load(from);
  S full[Vec::width];
  pad(from, n, full);
  return Vec::load(full);
}

/// Stores the first n elements.
template <typename S>
inline void store_some(Vec a, S* to, std::int64_t n) {
  if (Vec::width == 1 || n >= Vec::width) return a.store(to);
  S full[Vec::width];
  a.store(full);
  copy(full, n, to);
}

/// Calls function(column, elements) for each vector of a row. The last vector may be incomplete.
template <typename Function>
inline __attribute__((always_inline)) void each_vector(std::int64_t columns,
                                                       const Function& function) {
  std::int64_t i = 0;
  for (; i + Vec::width <= columns; i += Vec::width) function(i, std::int64_t{Vec::width});
  if (i < columns) function(i, columns - i);
}

}  // namespace
ANYACCEL_ISA_END
#endif
