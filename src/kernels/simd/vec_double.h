// A vector of two doubles, for kernels that are accurate enough for gradcheck. Include vec.h, which
// has the include guard.
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA fp64  // default for tools that parse only this file
#endif

#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

using Real = double;

struct Vec {
  static constexpr int width = 2;
  double x __attribute__((vector_size(16)));

  static Vec of(double value) {
    Vec out;
    out.x[0] = out.x[1] = value;
    return out;
  }
  static Vec load(const double* from) {
    Vec out;
    __builtin_memcpy(&out.x, from, 16);
    return out;
  }
  void store(double* to) const { __builtin_memcpy(to, &x, 16); }
  static Vec fma(Vec a, Vec b, Vec c) { return {a.x * b.x + c.x}; }
};

inline Vec operator*(Vec a, Vec b) { return {a.x * b.x}; }
inline Vec operator+(Vec a, Vec b) { return {a.x + b.x}; }
inline Vec operator/(Vec a, Vec b) { return {a.x / b.x}; }

}  // namespace
ANYACCEL_ISA_END
