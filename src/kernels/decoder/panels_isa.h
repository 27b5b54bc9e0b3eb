// Float32 panels, and packing for both types of panels.
//
// A panel consists of strips [inputs][strip]. While a tile of rows is multiplied by a strip, the
// sums of the strip's outputs stay in registers.
#if defined(ANYACCEL_DECODER_PANELS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_PANELS_ISA_H)
#undef ANYACCEL_DECODER_PANELS_ISA_H
#else
#define ANYACCEL_DECODER_PANELS_ISA_H
#endif

#include "kernels/decoder/panel_tiles_isa.h"
#include "kernels/decoder/panels.h"
#include "kernels/simd/element.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr int strip_vectors = Vec::width == 8 ? 2 : 4;
constexpr std::int64_t strip = strip_vectors * Vec::width;

/// Sets to[i * to_row + r] = rows[r][i] for panel_group rows of 32-bit words.
constexpr int panel_group = 16;
inline void turn_rows(const char* const (&rows)[panel_group], std::int64_t words, char* to,
                      std::int64_t to_row) {
  std::int64_t i = 0;
#if ANYACCEL_WIDTH >= 4
  for (; i + ANYACCEL_WIDTH <= words; i += ANYACCEL_WIDTH)
    for (int g = 0; g < panel_group; g += ANYACCEL_WIDTH) {
      Row block[ANYACCEL_WIDTH];
      for (int r = 0; r < ANYACCEL_WIDTH; ++r)
        __builtin_memcpy(&block[r], rows[g + r] + 4 * i, sizeof block[r]);
      transpose(block);
      for (int r = 0; r < ANYACCEL_WIDTH; ++r)
        __builtin_memcpy(to + 4 * ((i + r) * to_row + g), &block[r], sizeof block[r]);
    }
#endif
  for (; i < words; ++i)
    for (int r = 0; r < panel_group; ++r)
      __builtin_memcpy(to + 4 * (i * to_row + r), rows[r] + 4 * i, 4);
}

template <typename T>
inline void floats_to(const T* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width) Vec::load(from + i).store(to + i);
  if (i == count) return;
  T rest[Vec::width] = {};
  float values[Vec::width];
  __builtin_memcpy(rest, from + i, static_cast<unsigned long>(count - i) * sizeof(T));
  Vec::load(static_cast<const T*>(rest)).store(values);
  __builtin_memcpy(to + i, values, static_cast<unsigned long>(count - i) * 4);
}

}  // namespace

void floats_of(Element type, const void* from, std::int64_t count, float* to) {
  if (type == Element::f32) return floats_to(static_cast<const float*>(from), count, to);
  if (type == Element::bf16) return floats_to(static_cast<const Bf16*>(from), count, to);
  floats_to(static_cast<const Fp16*>(from), count, to);
}

/// Stores panel_group rows of floats as the outputs [first, first + panel_group) of a panel.
void place_rows(const char* const (&rows)[panel_group], std::int64_t inputs, std::int64_t first,
                float* panel) {
  for (int g = 0; g < panel_group;
       g += strip < panel_group ? static_cast<int>(strip) : panel_group) {
    const std::int64_t output = first + g;
    float* to = panel + output / strip * strip * inputs + output % strip;
    if constexpr (strip >= panel_group) {
      turn_rows(rows, inputs, reinterpret_cast<char*>(to), strip);
    } else {
      for (std::int64_t i = 0; i < inputs; ++i)
        for (std::int64_t r = 0; r < strip; ++r)
          __builtin_memcpy(to + i * strip + r, rows[g + r] + 4 * i, 4);
    }
  }
}

/// Stores panel_group rows of bfloat16 pairs as the outputs [first, first + panel_group) of a panel
/// [pairs][panel_outputs].
void place_pairs(const char* const (&rows)[panel_group], std::int64_t pairs, std::int64_t first,
                 char* panel) {
  turn_rows(rows, pairs, panel + 4 * first, panel_outputs);
}

/// Stores the columns [begin, begin + panel_outputs) of values[inputs][columns] as the outputs of a
/// panel.
void turned_floats(const void* values, Element type, std::int64_t inputs, std::int64_t columns,
                   std::int64_t begin, float* panel) {
  const std::int64_t count = columns - begin < panel_outputs ? columns - begin : panel_outputs;
  for (std::int64_t i = 0; i < inputs; ++i) {
    float row[panel_outputs] = {};
    floats_of(type, static_cast<const char*>(values) + (i * columns + begin) * size_of(type), count,
              row);
    for (std::int64_t s = 0; s < panel_outputs; s += strip)
      __builtin_memcpy(panel + s * inputs + i * strip, row + s, strip * 4);
  }
}

void multiply_floats(const float* panel, std::int64_t inputs, const char* x, std::int64_t x_row,
                     std::int64_t rows, float* to, std::int64_t to_row) {
  Product product = {rows,      strip,   inputs, reinterpret_cast<const float*>(x),
                     x_row / 4, panel,   strip,  to,
                     to_row,    nullptr, 1,      0,
                     0};
  for (std::int64_t s = 0; s < panel_outputs;
       s += strip, product.b += strip * inputs, product.c += strip)
    each_tile(
        rows, [&](std::int64_t r, auto step) __attribute__((always_inline)) {
          multiply_tile<false, false, decltype(step)::value, strip_vectors, 1>(product, r, 0);
        });
}

ANYACCEL_ISA_END
#endif
