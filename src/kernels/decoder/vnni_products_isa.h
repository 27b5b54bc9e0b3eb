// Matrix products of a few rows with int8 or int4 weights, on processors with AVX-512 VNNI.
#pragma once

#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx512_vnni  // default for tools that parse only this file
#endif
#define ANYACCEL_VNNI  // selects the layout of a row in integer_products_isa.h

#include "kernels/decoder/integer_products_isa.h"
#include "kernels/decoder/matrix.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN

void prepare(Format format, std::int64_t group, const float* from, std::int64_t rows,
             std::int64_t inputs, void* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    prepare_integers(format, group, from + r * inputs, inputs,
                     static_cast<char*>(to) + r * prepared_bytes(format, inputs));
}

void multiply(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin,
              std::int64_t end, float* to, std::int64_t to_row) {
  multiply_integers(m, prepared, rows, begin, end, to, to_row);
}

ANYACCEL_ISA_END
#endif
