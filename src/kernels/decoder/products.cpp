#include "kernels/decoder/matrix.h"

#include <atomic>

#define ANYACCEL_KERNEL_VNNI "kernels/decoder/vnni_products_isa.h"
#define ANYACCEL_KERNEL_DOTPROD "kernels/decoder/neon_products_isa.h"
#define ANYACCEL_KERNEL_I8MM "kernels/decoder/neon_products_isa.h"
#define ANYACCEL_KERNEL "kernels/decoder/products_isa.h"
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {
namespace {

std::atomic<bool> bytes_wanted{true};

[[maybe_unused]] bool is_integer(Format format) noexcept {
  return format == Format::int8 || format == Format::int4;
}

#if defined(__x86_64__)
/// Returns true if matrix products use AVX-512 VNNI, for which rows must be prepared differently.
bool in_bytes(Isa isa, Format format) noexcept {
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has && isa == Isa::avx512 && is_integer(format) &&
         bytes_wanted.load(std::memory_order_relaxed);
}
#endif

}  // namespace

void want_products_of_bytes(bool wanted) noexcept { bytes_wanted = wanted; }

std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept {
  const std::int64_t blocks = (inputs + 127) / 128;
  // Float rows are padded to a multiple of 32 elements (two 16-wide vectors). Rows of 16-bit
  // integers are followed by their scales, and by at most 64 bytes of sums per 64 integers.
  if (format != Format::int8 && format != Format::int4) return (inputs + 31) / 32 * 128;
  return blocks * 256 + (blocks + 15) / 16 * 64 + blocks * 128;
}

void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows,
                  void* prepared) noexcept {
#if defined(__x86_64__)
  if (in_bytes(isa, matrix.format))
    return avx512_vnni::prepare(matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
#elif defined(__aarch64__)
  if (is_integer(matrix.format) && isa >= Isa::neon_dotprod) {
    const auto prepare =
        isa == Isa::neon_dotprod ? neon_dotprod::prepare_bytes : neon_i8mm::prepare_bytes;
    return prepare(matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
  }
#endif
  ANYACCEL_CALL_ISA(isa, prepare, matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
}

void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows,
                   std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) noexcept {
#if defined(__x86_64__)
  if (in_bytes(isa, matrix.format))
    return avx512_vnni::multiply(matrix, prepared, rows, begin, end, to, to_row);
#elif defined(__aarch64__)
  if (is_integer(matrix.format) && isa >= Isa::neon_dotprod) {
    const auto multiply =
        isa == Isa::neon_dotprod ? neon_dotprod::multiply_bytes : neon_i8mm::multiply_bytes;
    return multiply(matrix, prepared, rows, begin, end, to, to_row);
  }
#endif
  ANYACCEL_CALL_ISA(isa, multiply, matrix, prepared, rows, begin, end, to, to_row);
}

}  // namespace anyaccel::ops
