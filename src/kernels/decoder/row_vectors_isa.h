// Loads and stores of a row's vectors, of which the last one may be partial, and small functions of vectors.
#if defined(ANYACCEL_DECODER_ROW_VECTORS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_ROW_VECTORS_ISA_H)
#undef ANYACCEL_DECODER_ROW_VECTORS_ISA_H
#else
#define ANYACCEL_DECODER_ROW_VECTORS_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Loads n elements, at least one, and sets the others to 0.
template <typename T>
inline Vec load_some(const T* from, std::int64_t n) {
  if (Vec::width == 1 || n >= Vec::width) return Vec::load(from);
  T full[Vec::width] = {};
  __builtin_memcpy(full, from, static_cast<unsigned long>(n) * sizeof(T));
  return Vec::load(full);
}

/// Stores the first n elements.
template <typename T>
inline void store_some(Vec a, T* to, std::int64_t n) {
  if (Vec::width == 1 || n >= Vec::width) return a.store(to);
  T full[Vec::width];
  a.store(full);
  __builtin_memcpy(to, full, static_cast<unsigned long>(n) * sizeof(T));
}

/// Calls function(column, elements) for each vector of a row.
template <typename Function>
inline __attribute__((always_inline)) void each_vector(std::int64_t columns, const Function& function) {
  for (std::int64_t i = 0; i < columns; i += Vec::width)
    function(i, columns - i < Vec::width ? columns - i : std::int64_t{Vec::width});
}

inline Vec minus(Vec a, Vec b) { return Vec::fma(b, Vec::of(-1), a); }
inline Vec min_of(Vec a, Vec b) { return {a.x < b.x ? a.x : b.x}; }

}  // namespace
ANYACCEL_ISA_END
#endif
