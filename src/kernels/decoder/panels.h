// Matrix products with many rows. A panel of outputs is converted once into the order in which
// products read it, and then multiplied by all rows. Works on plain arrays; independent of torch.
#pragma once

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// Operand type for matrix products with many rows. Both types accumulate in float32.
enum class Wide { f32, bf16 };

/// Number of outputs per panel. Matrix products write all of them; outputs past the end are zero.
constexpr std::int64_t panel_outputs = 64;
/// Number of rows that are multiplied by a panel at a time. Their sums stay in registers.
constexpr std::int64_t panel_tile_rows = 6;

/// Returns bf16 for bfloat16 models if the processor has AVX-512 BF16 or, on aarch64, bfloat16
/// instructions, and f32 otherwise.
Wide wide_for(Isa isa, Element model) noexcept;
/// Returns true if panels are the fastest known implementation for a model of this type. They are
/// slower on processors without 8-wide float vectors or bfloat16 products, and for 16-bit models on
/// processors with AMX, which LibTorch's kernels use. On aarch64, this is decided by instruction
/// counts (benchmarks/arm_instructions.py), not by measured time.
bool panels_pay(Isa isa, Element model) noexcept;

/// Stride in bytes between rows of `inputs` elements of type `wide`, a multiple of 64.
std::int64_t wide_row_bytes(Wide wide, std::int64_t inputs) noexcept;
/// Converts from[inputs] to the operand type, and zero-fills the row up to the next multiple of 64
/// bytes.
void widen_row(Isa isa, Wide wide, const float* from, std::int64_t inputs, void* to) noexcept;

/// Size of a panel with `inputs` inputs, in bytes.
std::int64_t panel_bytes(Wide wide, std::int64_t inputs) noexcept;
/// Size of the scratch memory that make_panel() needs for a matrix with `inputs` inputs, in bytes.
std::int64_t panel_scratch_bytes(std::int64_t inputs) noexcept;
/// Makes a panel of the outputs [begin, begin + panel_outputs). `panel` is aligned to 64 bytes.
void make_panel(Isa isa, Wide wide, const Matrix& matrix, std::int64_t begin, void* scratch,
                void* panel) noexcept;
/// Makes a panel from a transposed matrix. Its outputs are the columns [begin, begin +
/// panel_outputs) of values[inputs][columns]. For bf16 and an odd number of inputs, the missing
/// input of the last pair is zero.
void make_turned_panel(Isa isa, Wide wide, const void* values, Element type, std::int64_t inputs,
                       std::int64_t columns, std::int64_t begin, void* panel) noexcept;
/// Sets to[r * to_row + output] to the dot product of row r of x, which has the operand type, and
/// output `output` of the panel. The stride between rows of x is `x_row` bytes.
void multiply_panel(Isa isa, Wide wide, const void* panel, std::int64_t inputs, const void* x,
                    std::int64_t x_row, std::int64_t rows, float* to, std::int64_t to_row) noexcept;

}  // namespace anyaccel::ops
