// Multiplies rows by a matrix with the decoder's kernels. benchmarks/arm_instructions.py counts the
// instructions of a product.
//
//   products <instruction set> <format> <group> <rows> <outputs> <inputs> <repeats> [panels]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "kernels/decoder/matrix.h"
#include "kernels/decoder/panels.h"
#include "kernels/simd/isa.h"

namespace {

using namespace anyaccel::ops;

/// Memory aligned to a cache line, filled with small integers.
char* memory(std::int64_t bytes) {
  auto* const out =
      static_cast<char*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{4096}));
  for (std::int64_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 37 % 61);
  return out;
}
float* floats(std::int64_t count) {
  auto* const out = reinterpret_cast<float*>(memory(count * 4));
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(i % 17) / 16 - 0.5F;
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 8) {
    std::fprintf(stderr, "products: expected at least 7 arguments, got %d\n", count - 1);
    return 2;
  }
  const std::string format = arguments[2];
  const auto number = [&](int i) { return std::int64_t{std::atoll(arguments[i])}; };
  const std::int64_t group = number(3), rows = number(4), outputs = number(5), inputs = number(6);
  const Isa isa = isa_for(arguments[1]);
  if (std::strcmp(arguments[1], to_string(isa)) != 0) {
    std::fprintf(stderr, "products: this CPU does not support %s\n", arguments[1]);
    return 2;
  }
  const bool integers = format == "int8" || format == "int4";
  const Format kind = format == "int8"   ? Format::int8
                      : format == "int4" ? Format::int4
                      : format == "bf16" ? Format::bf16
                                         : Format::f32;
  const std::int64_t bits = kind == Format::int8   ? 8
                            : kind == Format::int4 ? 4
                            : kind == Format::bf16 ? 16
                                                   : 32;
  const Matrix m{
      kind,
      outputs,
      inputs,
      integers ? group : 0,
      integers ? memory(outputs * inputs * bits / 8) : static_cast<void*>(floats(outputs * inputs)),
      integers ? floats(outputs * inputs / group) : nullptr,
      nullptr};
  const float* const x = floats(rows * inputs);
  float* const to = floats(rows * (outputs + panel_outputs));
  const bool panels = count > 8 && std::strcmp(arguments[8], "panels") == 0;
  const Wide wide = wide_for(isa, Element::bf16);
  char* const prepared =
      memory(rows * (prepared_bytes(kind, inputs) + wide_row_bytes(wide, inputs)));
  char* const scratch = memory(panel_scratch_bytes(inputs));
  char* const panel = memory(panel_bytes(wide, inputs));
  const std::int64_t x_row = wide_row_bytes(wide, inputs);
  for (std::int64_t i = number(7); i; --i) {
    if (!panels) {
      prepare_rows(isa, m, x, rows, prepared);
      multiply_rows(isa, m, prepared, rows, 0, outputs, to, outputs);
      continue;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      widen_row(isa, wide, x + r * inputs, inputs, prepared + r * x_row);
    for (std::int64_t begin = 0; begin < outputs; begin += panel_outputs) {
      make_panel(isa, wide, m, begin, scratch, panel);
      multiply_panel(isa, wide, panel, inputs, prepared, x_row, rows, to + begin, outputs);
    }
  }
  std::printf("%g\n", static_cast<double>(to[0]));
  return 0;
}
