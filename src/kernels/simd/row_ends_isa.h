// Loads, stores and loops over rows whose length is not a multiple of the vector's width.
#if defined(ANYACCEL_SIMD_ROW_ENDS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_ROW_ENDS_ISA_H)
#undef ANYACCEL_SIMD_ROW_ENDS_ISA_H
#else
#define ANYACCEL_SIMD_ROW_ENDS_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Loads n elements and sets the others to 0.
template <typename S>
inline Vec load_some(const S* from, std::int64_t n) {
  if (n >= Vec::width) return Vec::load(from);
  S full[Vec::width];
  for (int i = 0; i < Vec::width; ++i) full[i] = i < n ? from[i] : S{};
  return Vec::load(full);
}

/// Stores the first n elements.
template <typename S>
inline void store_some(Vec a, S* to, std::int64_t n) {
  if (n >= Vec::width) return a.store(to);
  S full[Vec::width];
  a.store(full);
  for (std::int64_t i = 0; i < n; ++i) to[i] = full[i];
}

/// Calls function(column, elements) for each vector of a row.
template <typename Function>
inline __attribute__((always_inline)) void each_vector(std::int64_t columns, const Function& function) {
  std::int64_t i = 0;
  for (; i + Vec::width <= columns; i += Vec::width) function(i, std::int64_t{Vec::width});
  if (i < columns) function(i, columns - i);
}

/// The sum of the elements.
inline Real total(Vec a) {
  Real parts[Vec::width];
  a.store(parts);
  for (int step = Vec::width / 2; step; step /= 2)
    for (int i = 0; i < step; ++i) parts[i] += parts[i + step];
  return parts[0];
}

}  // namespace
ANYACCEL_ISA_END
#endif
