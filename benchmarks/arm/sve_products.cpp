// Multiplies a row by an int8 matrix with SVE, for vectors of any length, so that
// benchmarks/arm_instructions.py can compare its instructions with those of the NEON kernels
// (kernels/decoder/neon_products_isa.h), whose numbers it computes: the row has 16-bit integers in
// two bytes each, with a scale per 128 inputs, and so do the weights.
//
//   sve_products <dot or matrix> <outputs> <inputs> <repeats>
#include <arm_sve.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::int64_t block = 128, tile = 4;

struct Row {
  std::vector<std::int8_t> upper, lower;  ///< x = 256 * upper + lower
  std::vector<float> scales;
};
struct Matrix {
  std::int64_t outputs, inputs;
  std::vector<std::int8_t> weights;
  std::vector<float> scales;
};

/// Uses dot products. A vector has weights of one output.
void multiply_dot(const Matrix& m, const Row& x, float* to) {
  const svbool_t bytes = svptrue_b8(), words = svptrue_b32();
  const auto width = static_cast<std::int64_t>(svcntb());
  const std::int64_t blocks = m.inputs / block;
  for (std::int64_t output = 0; output < m.outputs; output += tile, to += tile) {
    const std::int8_t* const w = m.weights.data() + output * m.inputs;
    const float* const scales = m.scales.data() + output * blocks;
    svfloat32_t a = svdup_f32(0), b = a, c = a, d = a;
    for (std::int64_t k = 0; k < blocks; ++k) {
      svint32_t upper_a = svdup_s32(0), upper_b = upper_a, upper_c = upper_a, upper_d = upper_a,
                lower_a = upper_a, lower_b = upper_a, lower_c = upper_a, lower_d = upper_a;
      for (std::int64_t i = k * block; i < (k + 1) * block; i += width) {
        const svint8_t upper = svld1_s8(bytes, x.upper.data() + i),
                       lower = svld1_s8(bytes, x.lower.data() + i);
        svint8_t q = svld1_s8(bytes, w + i);
        upper_a = svdot_s32(upper_a, q, upper), lower_a = svdot_s32(lower_a, q, lower);
        q = svld1_s8(bytes, w + m.inputs + i);
        upper_b = svdot_s32(upper_b, q, upper), lower_b = svdot_s32(lower_b, q, lower);
        q = svld1_s8(bytes, w + 2 * m.inputs + i);
        upper_c = svdot_s32(upper_c, q, upper), lower_c = svdot_s32(lower_c, q, lower);
        q = svld1_s8(bytes, w + 3 * m.inputs + i);
        upper_d = svdot_s32(upper_d, q, upper), lower_d = svdot_s32(lower_d, q, lower);
      }
      const auto add = [&](svfloat32_t sum, svint32_t upper, svint32_t lower, std::int64_t o) {
        const svint32_t exact = svadd_s32_x(words, lower, svlsl_n_s32_x(words, upper, 8));
        return svmla_n_f32_x(words, sum, svcvt_f32_s32_x(words, exact),
                             scales[o * blocks + k] * x.scales[static_cast<std::size_t>(k)]);
      };
      a = add(a, upper_a, lower_a, 0), b = add(b, upper_b, lower_b, 1);
      c = add(c, upper_c, lower_c, 2), d = add(d, upper_d, lower_d, 3);
    }
    to[0] = svaddv_f32(words, a), to[1] = svaddv_f32(words, b);
    to[2] = svaddv_f32(words, c), to[3] = svaddv_f32(words, d);
  }
}

#if defined(__ARM_FEATURE_SVE_MATMUL_INT8)
/// Uses matrix products. Each 16 bytes of a row's vector are the upper and lower bytes of 8 inputs,
/// and those of a weight vector are 8 inputs of two outputs.
void multiply_matrix(const Matrix& m, const Row& x, float* to) {
  const svbool_t bytes = svptrue_b8(), words = svptrue_b32();
  const auto width = static_cast<std::int64_t>(svcntb());
  const std::int64_t blocks = m.inputs / block;
  // Shifts the sums with upper bytes, which are the even elements, by 8.
  const svuint32_t shifts = svzip1_u32(svdup_u32(8), svdup_u32(0));
  for (std::int64_t output = 0; output < m.outputs; output += tile, to += tile) {
    const std::int8_t* const w = m.weights.data() + output * m.inputs;
    const float* const scales = m.scales.data() + output * blocks;
    svfloat32_t ab = svdup_f32(0), cd = ab;
    for (std::int64_t k = 0; k < blocks; ++k) {
      svint32_t sum_ab = svdup_s32(0), sum_cd = sum_ab;
      for (std::int64_t i = k * block; i < (k + 1) * block; i += width) {
        const auto load = [&](const std::int8_t* from) {
          return svreinterpret_u64_s8(svld1_s8(bytes, from));
        };
        const svuint64_t upper = load(x.upper.data() + i), lower = load(x.lower.data() + i);
        const svint8_t low = svreinterpret_s8_u64(svzip1_u64(upper, lower)),
                       high = svreinterpret_s8_u64(svzip2_u64(upper, lower));
        const auto pair = [&](svint32_t sum, std::int64_t o) {
          const svuint64_t p = load(w + o * m.inputs + i), q = load(w + (o + 1) * m.inputs + i);
          sum = svmmla_s32(sum, svreinterpret_s8_u64(svzip1_u64(p, q)), low);
          return svmmla_s32(sum, svreinterpret_s8_u64(svzip2_u64(p, q)), high);
        };
        sum_ab = pair(sum_ab, 0), sum_cd = pair(sum_cd, 2);
      }
      const auto add = [&](svfloat32_t sum, svint32_t exact, std::int64_t o) {
        const float row = x.scales[static_cast<std::size_t>(k)];
        // Elements of each 128 bits: upper and lower sums of output o, then of output o + 1.
        const svfloat32_t scale = svreinterpret_f32_u64(
            svzip1_u64(svreinterpret_u64_f32(svdup_f32(scales[o * blocks + k] * row)),
                       svreinterpret_u64_f32(svdup_f32(scales[(o + 1) * blocks + k] * row))));
        return svmla_f32_x(words, sum, svcvt_f32_s32_x(words, svlsl_s32_x(words, exact, shifts)),
                           scale);
      };
      ab = add(ab, sum_ab, 0), cd = add(cd, sum_cd, 2);
    }
    const svbool_t first = svcmpeq_n_u32(words, svand_n_u32_x(words, svindex_u32(0, 1), 2), 0),
                   second = svnot_b_z(words, first);
    to[0] = svaddv_f32(first, ab), to[1] = svaddv_f32(second, ab);
    to[2] = svaddv_f32(first, cd), to[3] = svaddv_f32(second, cd);
  }
}
#endif

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "sve_products: expected 4 arguments, got %d\n", count - 1);
    return 2;
  }
  const std::int64_t outputs = std::atoll(arguments[2]), inputs = std::atoll(arguments[3]);
  Matrix m{outputs, inputs, {}, {}};
  Row x;
  for (std::int64_t i = 0; i < outputs * inputs; ++i)
    m.weights.push_back(static_cast<std::int8_t>(i * 37 % 255 - 127));
  for (std::int64_t i = 0; i < outputs * inputs / block; ++i)
    m.scales.push_back(static_cast<float>(i % 17 + 1) / 1024);
  for (std::int64_t i = 0; i < inputs; ++i) {
    x.upper.push_back(static_cast<std::int8_t>(i * 91 % 255 - 127));
    x.lower.push_back(static_cast<std::int8_t>(i * 53 % 255 - 127));
  }
  for (std::int64_t i = 0; i < inputs / block; ++i)
    x.scales.push_back(static_cast<float>(i % 5 + 1) / 65536);
  auto* multiply = multiply_dot;
#if defined(__ARM_FEATURE_SVE_MATMUL_INT8)
  if (std::strcmp(arguments[1], "matrix") == 0) multiply = multiply_matrix;
#endif
  std::vector<float> to(static_cast<std::size_t>(outputs));
  for (std::int64_t i = std::atoll(arguments[4]); i; --i) multiply(m, x, to.data());
  for (const std::int64_t o : {std::int64_t{0}, outputs - 3, outputs - 2, outputs - 1}) {
    double want = 0, size = 0;
    for (std::int64_t i = 0; i < inputs; ++i) {
      const double value =
          (256.0 * x.upper[static_cast<std::size_t>(i)] + x.lower[static_cast<std::size_t>(i)]) *
          m.weights[static_cast<std::size_t>(o * inputs + i)] *
          double{m.scales[static_cast<std::size_t>((o * inputs + i) / block)]} *
          double{x.scales[static_cast<std::size_t>(i / block)]};
      want += value;
      size += std::abs(value);
    }
    if (!(std::abs(to[static_cast<std::size_t>(o)] - want) <= 1e-5 * size)) {
      std::fprintf(stderr, "sve_products: output %lld is %g, expected %g\n",
                   static_cast<long long>(o), static_cast<double>(to[static_cast<std::size_t>(o)]),
                   want);
      return 1;
    }
  }
  std::printf("%g\n", static_cast<double>(to[0]));
  return 0;
}
