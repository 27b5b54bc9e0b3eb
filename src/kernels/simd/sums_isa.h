// Sums and maxima of a vector's elements. The order of operations is fixed: the two halves of the
// vector are combined, repeatedly, until one element is left.
#if defined(ANYACCEL_SIMD_SUMS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_SUMS_ISA_H)
#undef ANYACCEL_SIMD_SUMS_ISA_H
#else
#define ANYACCEL_SIMD_SUMS_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

#if ANYACCEL_WIDTH >= 8
typedef float Lanes __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
inline Lanes lanes_of(Vec a) {
  Lanes lanes;
  __builtin_memcpy(&lanes, &a.x, sizeof lanes);
  return lanes;
}
#endif

#if ANYACCEL_WIDTH == 16
#define ANYACCEL_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
/// Returns eight sums of pairs in `a`, followed by eight sums of pairs in `b`.
inline Lanes halve(Lanes a, Lanes b) {
  return ANYACCEL_PICK(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         ANYACCEL_PICK(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
/// Sets to[i] to the sum of the elements of a[i].
inline void totals(const Vec (&a)[4], float* to) {
  const Lanes ab = halve(lanes_of(a[0]), lanes_of(a[1])),
              cd = halve(lanes_of(a[2]), lanes_of(a[3]));
  const Lanes four =
      ANYACCEL_PICK(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      ANYACCEL_PICK(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const Lanes two =
      four + ANYACCEL_PICK(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  const Lanes one =
      two + ANYACCEL_PICK(two, two, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  for (int i = 0; i < 4; ++i) to[i] = one[4 * i];
}
inline float total(Vec a) {
  float four[4];
  const Vec all[4] = {a, a, a, a};
  totals(all, four);
  return four[0];
}
inline float greatest(Vec a) {
  Lanes most = lanes_of(a),
        other = ANYACCEL_PICK(most, most, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  most = most > other ? most : other;
  other = ANYACCEL_PICK(most, most, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  most = most > other ? most : other;
  other = ANYACCEL_PICK(most, most, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  most = most > other ? most : other;
  return most[0] > most[1] ? most[0] : most[1];
}
#undef ANYACCEL_PICK
#else
inline Real total(Vec a) {
  Real parts[Vec::width];
  a.store(parts);
  for (int step = Vec::width / 2; step; step /= 2)
    for (int i = 0; i < step; ++i) parts[i] += parts[i + step];
  return parts[0];
}
#if ANYACCEL_WIDTH == 8
inline Lanes halve(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
inline void totals(const Vec (&a)[4], float* to) {
  const Lanes ab = halve(lanes_of(a[0]), lanes_of(a[1])),
              cd = halve(lanes_of(a[2]), lanes_of(a[3]));
  const Lanes two = __builtin_shufflevector(ab, cd, 0, 1, 4, 5, 8, 9, 12, 13) +
                    __builtin_shufflevector(ab, cd, 2, 3, 6, 7, 10, 11, 14, 15);
  const Lanes one = two + __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6);
  for (int i = 0; i < 4; ++i) to[i] = one[2 * i];
}
#else
inline void totals(const Vec (&a)[4], Real* to) {
  for (int i = 0; i < 4; ++i) to[i] = total(a[i]);
}
#endif
inline Real greatest(Vec a) {
  Real parts[Vec::width];
  a.store(parts);
  for (int step = Vec::width / 2; step; step /= 2)
    for (int i = 0; i < step; ++i)
      parts[i] = parts[i] > parts[i + step] ? parts[i] : parts[i + step];
  return parts[0];
}
#endif

}  // namespace
ANYACCEL_ISA_END
#endif
