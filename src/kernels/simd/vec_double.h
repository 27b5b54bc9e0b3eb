// Two doubles, for checks of gradients: exact before fast. Included by kernels.cpp inside a namespace.
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

inline Vec exp2_of(Vec a) {
  Vec out;
  for (int i = 0; i < 2; ++i) out.x[i] = __builtin_exp2(a.x[i]);
  return out;
}
