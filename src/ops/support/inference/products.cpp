#include "ops/support/inference/matrix.h"

#define ANYACCEL_KERNEL "ops/support/inference/products_isa.h"
#include "ops/support/each_isa.h"

namespace anyaccel::ops {

std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept {
  const std::int64_t blocks = (inputs + 127) / 128;
  // Floats are filled up to two vectors of sixteen; behind the words stand scales, and sums of at most 64 bytes for each 64 words.
  if (format != Format::int8 && format != Format::int4) return (inputs + 31) / 32 * 128;
  return blocks * 256 + (blocks + 15) / 16 * 64 + (format == Format::int4 ? blocks * 128 : 0);
}

void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows, void* prepared) noexcept {
  ANYACCEL_CALL_ISA(isa, prepare, matrix.format, matrix.group, from, rows, matrix.inputs, prepared);
}

void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows, std::int64_t begin,
                   std::int64_t end, float* to, std::int64_t to_row) noexcept {
  ANYACCEL_CALL_ISA(isa, multiply, matrix, prepared, rows, begin, end, to, to_row);
}

}  // namespace anyaccel::ops
