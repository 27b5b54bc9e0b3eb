#include "kernels/decoder/matrix.h"

#include <atomic>

#define ANYACCEL_KERNEL "kernels/decoder/products_isa.h"
#include "kernels/simd/each_isa.h"

#if defined(__x86_64__)
ANYACCEL_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define ANYACCEL_WIDTH 16
namespace anyaccel::ops::avx512_vnni {
namespace {
#include "kernels/simd/vec_avx512.h"
// After it, and in this order.
#include "kernels/decoder/prefetch_isa.h"
//
#include "kernels/decoder/sums_isa.h"
#include "kernels/decoder/vnni_dot_isa.h"
//
#include "kernels/decoder/integer_products_isa.h"
}  // namespace
void prepare(Format format, std::int64_t group, const float* from, std::int64_t rows, std::int64_t inputs, void* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    prepare_integers(format, group, from + r * inputs, inputs,
                     static_cast<char*>(to) + r * prepared_bytes(format, inputs));
}
void multiply(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin, std::int64_t end, float* to,
              std::int64_t to_row) {
  multiply_integers(m, prepared, rows, begin, end, to, to_row);
}
}  // namespace anyaccel::ops::avx512_vnni
#undef ANYACCEL_WIDTH
ANYACCEL_TARGET_END
#endif

namespace anyaccel::ops {
namespace {

std::atomic<bool> bytes_wanted{true};

/// Prepared rows have the form of these products then.
bool in_bytes(Isa isa, Format format) noexcept {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has && isa == Isa::avx512 && (format == Format::int8 || format == Format::int4) &&
         bytes_wanted.load(std::memory_order_relaxed);
#else
  return false && isa == Isa::scalar && format == Format::f32;
#endif
}

}  // namespace

void want_products_of_bytes(bool wanted) noexcept { bytes_wanted = wanted; }

std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept {
  const std::int64_t blocks = (inputs + 127) / 128;
  // Floats are filled up to two vectors of sixteen; behind the words stand scales, and sums of at most 64 bytes for each 64 words.
  if (format != Format::int8 && format != Format::int4) return (inputs + 31) / 32 * 128;
  return blocks * 256 + (blocks + 15) / 16 * 64 + blocks * 128;
}

void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows, void* prepared) noexcept {
#if defined(__x86_64__)
  if (in_bytes(isa, matrix.format))
    return avx512_vnni::prepare(matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
#endif
  ANYACCEL_CALL_ISA(isa, prepare, matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
}

void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows, std::int64_t begin,
                   std::int64_t end, float* to, std::int64_t to_row) noexcept {
#if defined(__x86_64__)
  if (in_bytes(isa, matrix.format)) return avx512_vnni::multiply(matrix, prepared, rows, begin, end, to, to_row);
#endif
  ANYACCEL_CALL_ISA(isa, multiply, matrix, prepared, rows, begin, end, to, to_row);
}

}  // namespace anyaccel::ops
