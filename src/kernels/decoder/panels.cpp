#include "kernels/decoder/panels.h"

#include "kernels/decoder/integers.h"
#include "kernels/decoder/scratch.h"

#define ANYACCEL_KERNEL "kernels/decoder/panels_isa.h"
#define ANYACCEL_KERNEL_BF16 "kernels/decoder/panels_bf16.h"
#define ANYACCEL_KERNEL_NEON_BF16 "kernels/decoder/panels_neon_bf16.h"
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {
namespace {

constexpr int group = 16;

bool has_bf16_products(Isa isa) noexcept {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return isa == Isa::avx512 && has;
#elif defined(__aarch64__)
  return isa == Isa::neon_bf16;
#else
  return false && isa == Isa::scalar;
#endif
}

bool has_tiles() noexcept {
#if defined(__x86_64__)
  unsigned a, b, c, d = 0;
  asm("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  return (d >> 22 & 1) != 0;  // whether the processor supports AMX-BF16
#else
  return false;
#endif
}

Element element_of(Format format) {
  return format == Format::f32    ? Element::f32
         : format == Format::bf16 ? Element::bf16
                                  : Element::fp16;
}

bool is_float(Format format) { return format != Format::int8 && format != Format::int4; }

/// Number of 32-bit words per output in a panel.
std::int64_t words_of(Wide wide, std::int64_t inputs) {
#if defined(__aarch64__)
  if (wide == Wide::bf16) return (inputs + 3) / 4 * 2;
#endif
  return wide == Wide::bf16 ? (inputs + 1) / 2 : inputs;
}

/// Returns the weights of `output` in the panel's type, either in place or converted into
/// `scratch`.
const char* wide_weights(Isa isa, Wide wide, const Matrix& m, std::int64_t output, char* scratch) {
  if (!is_float(m.format)) {
    widen_rows(isa, m, output, output + 1, wide == Wide::bf16 ? Element::bf16 : Element::f32,
               scratch);
    return scratch;
  }
  const Element type = element_of(m.format);
  const char* row = static_cast<const char*>(m.weight) + output * m.inputs * size_of(type);
  if (type == (wide == Wide::bf16 ? Element::bf16 : Element::f32)) return row;
  auto* floats = reinterpret_cast<float*>(scratch);
  ANYACCEL_CALL_ISA(isa, floats_of, type, row, m.inputs, floats);
  // Converting in place is safe, because widen_row() never writes past the elements it has read.
  if (wide == Wide::bf16) widen_row(isa, wide, floats, m.inputs, scratch);
  return scratch;
}

}  // namespace

Wide wide_for(Isa isa, Element model) noexcept {
  return model == Element::bf16 && has_bf16_products(isa) ? Wide::bf16 : Wide::f32;
}

bool panels_pay(Isa isa, Element model) noexcept {
  static const bool tiles = has_tiles();
  if (isa == Isa::neon_bf16) return model == Element::bf16;
  return (isa == Isa::avx512 || isa == Isa::avx2) && !(tiles && model != Element::f32);
}

std::int64_t wide_row_bytes(Wide wide, std::int64_t inputs) noexcept {
  const std::int64_t bytes = rounded(inputs * (wide == Wide::bf16 ? 2 : 4), 64);
  // Rows whose stride is a multiple of the page size would compete for the same cache sets.
  return bytes % 4096 ? bytes : bytes + 64;
}

void widen_row(Isa isa, Wide wide, const float* from, std::int64_t inputs, void* to) noexcept {
  char* const out = static_cast<char*>(to);
  const std::int64_t used = inputs * (wide == Wide::bf16 ? 2 : 4);
  if (wide == Wide::f32) {
    __builtin_memmove(out, from, static_cast<unsigned long>(used));
  } else {
#if defined(__x86_64__)
    avx512_bf16::row_to_pairs(from, inputs, out);
#elif defined(__aarch64__)
    neon_bf16::row_to_bf16(from, inputs, out);
#endif
  }
  __builtin_memset(out + used, 0, static_cast<unsigned long>(rounded(used, 64) - used));
  (void)isa;
}

std::int64_t panel_bytes(Wide wide, std::int64_t inputs) noexcept {
  return words_of(wide, inputs) * panel_outputs * 4;
}

std::int64_t panel_scratch_bytes(std::int64_t inputs) noexcept {
  return (group + 1) * rounded(inputs * 4 + 64, 64);
}

void make_panel(Isa isa, Wide wide, const Matrix& m, std::int64_t begin, void* scratch,
                void* panel) noexcept {
  const std::int64_t row = rounded(m.inputs * 4 + 64, 64), words = words_of(wide, m.inputs);
  char* const own = static_cast<char*>(scratch);
  char* const zeros = own + group * row;
  __builtin_memset(zeros, 0, static_cast<unsigned long>(row));
  for (std::int64_t first = 0; first < panel_outputs; first += group) {
    const char* rows[group];
    for (int r = 0; r < group; ++r) {
      const std::int64_t output = begin + first + r;
      rows[r] = output < m.outputs ? wide_weights(isa, wide, m, output, own + r * row) : zeros;
    }
    if (wide == Wide::f32) {
      ANYACCEL_CALL_ISA(isa, place_rows, rows, m.inputs, first, static_cast<float*>(panel));
      continue;
    }
#if defined(__aarch64__)
    neon_bf16::place_quads(rows, m.inputs, words / 2, first, static_cast<char*>(panel));
#else
    ANYACCEL_CALL_ISA(isa, place_pairs, rows, m.inputs / 2, first, static_cast<char*>(panel));
    if (m.inputs % 2 == 0) continue;
    for (int r = 0; r < group; ++r) {
      std::uint16_t last[2] = {0, 0};
      __builtin_memcpy(last, rows[r] + 2 * (m.inputs - 1), 2);
      __builtin_memcpy(static_cast<char*>(panel) + 4 * ((words - 1) * panel_outputs + first + r),
                       last, 4);
    }
#endif
  }
}

void make_turned_panel(Isa isa, Wide wide, const void* values, Element type, std::int64_t inputs,
                       std::int64_t columns, std::int64_t begin, void* panel) noexcept {
#if defined(__x86_64__)
  if (wide == Wide::bf16)  // in this case, `type` is bf16
    return avx512_bf16::turned_pairs(static_cast<const char*>(values), inputs, columns, begin,
                                     static_cast<char*>(panel));
#elif defined(__aarch64__)
  if (wide == Wide::bf16)
    return neon_bf16::turned_quads(static_cast<const char*>(values), inputs, columns, begin,
                                   static_cast<char*>(panel));
#endif
  ANYACCEL_CALL_ISA(isa, turned_floats, values, type, inputs, columns, begin,
                    static_cast<float*>(panel));
  (void)wide;
}

void multiply_panel(Isa isa, Wide wide, const void* panel, std::int64_t inputs, const void* x,
                    std::int64_t x_row, std::int64_t rows, float* to,
                    std::int64_t to_row) noexcept {
  const char* const from = static_cast<const char*>(x);
#if defined(__x86_64__)
  if (wide == Wide::bf16)
    return avx512_bf16::multiply_pairs(static_cast<const char*>(panel), words_of(wide, inputs),
                                       from, x_row, rows, to, to_row);
#elif defined(__aarch64__)
  if (wide == Wide::bf16)
    return neon_bf16::multiply_quads(static_cast<const char*>(panel), words_of(wide, inputs) / 2,
                                     from, x_row, rows, to, to_row);
#endif
  ANYACCEL_CALL_ISA(isa, multiply_floats, static_cast<const float*>(panel), inputs, from, x_row,
                    rows, to, to_row);
  (void)wide;
}

}  // namespace anyaccel::ops
