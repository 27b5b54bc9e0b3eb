// Products of many rows with matrices: a panel of outputs is widened once, into the order in which
// the products read it, and goes through all rows. Over plain arrays; nothing here knows torch.
#pragma once

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// What products of many rows are computed with; sums are float32 in both.
enum class Wide { f32, bf16 };

/// Outputs of a panel; products write all of them, those that there are not as zeros.
constexpr std::int64_t panel_outputs = 64;
/// Rows that go through a panel at once, while their sums are in registers.
constexpr std::int64_t panel_tile_rows = 6;

/// bf16 for a model of bfloat16 where the processor multiplies pairs of them (AVX-512 BF16), else
/// f32.
Wide wide_for(Isa isa, Element model) noexcept;
/// Whether this way is the fastest that is known for a model of this type: not where the processor
/// has a unit for whole tiles (AMX), which LibTorch's kernels use, nor without vectors of eight
/// floats.
bool panels_pay(Isa isa, Element model) noexcept;

/// Bytes from one row of `inputs` values to the next, a multiple of 64.
std::int64_t wide_row_bytes(Wide wide, std::int64_t inputs) noexcept;
/// from[inputs] in the form that products read; what is left of wide_row_bytes() becomes zeros.
void widen_row(Isa isa, Wide wide, const float* from, std::int64_t inputs, void* to) noexcept;

/// Of one panel over so many inputs.
std::int64_t panel_bytes(Wide wide, std::int64_t inputs) noexcept;
/// What make_panel() needs beside it for a matrix of `inputs`.
std::int64_t panel_scratch_bytes(std::int64_t inputs) noexcept;
/// The outputs [begin, begin + panel_outputs) of `matrix`. `panel` is aligned to 64 bytes.
void make_panel(Isa isa, Wide wide, const Matrix& matrix, std::int64_t begin, void* scratch,
                void* panel) noexcept;
/// The columns [begin, begin + panel_outputs) of values[inputs][columns] as outputs: a matrix that
/// lies turned. Of its inputs, those behind `inputs` up to wide_row_bytes() are zeros.
void make_turned_panel(Isa isa, Wide wide, const void* values, Element type, std::int64_t inputs,
                       std::int64_t columns, std::int64_t begin, void* panel) noexcept;
/// to[r * to_row + output] = sum of the wide row r (`x_row` bytes from one to the next) times the
/// panel.
void multiply_panel(Isa isa, Wide wide, const void* panel, std::int64_t inputs, const void* x,
                    std::int64_t x_row, std::int64_t rows, float* to, std::int64_t to_row) noexcept;

}  // namespace anyaccel::ops
