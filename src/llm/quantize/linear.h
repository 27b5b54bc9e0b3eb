// Matrices of a model as they are multiplied with: floats, or integers with a scale for each group
// of inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace anyaccel::llm {

/// What belongs to an integer matrix, beside its weight; both undefined where the weight is float.
///
/// int8: weight int8 [outputs, inputs], value = scale * q, q from -127 to 127. int4: weight uint8
/// [outputs, inputs / 2], value = scale * (q - zero), q from 0 to 15, in blocks of 64 inputs (32
/// where the group is no multiple of 64) = 16 (8) little-endian words of 16 bits, whose word i has
/// in its nibble j the input 16 j + i (8 j + i) of the block.
struct Scales {
  at::Tensor scales;  ///< float32 [outputs, groups]
  at::Tensor zeros;   ///< uint8 [outputs, groups] of int4; undefined: 8
};

/// What a matrix of integers is made as: 8 or 4 bits, and how many inputs share a scale.
struct IntegerFormat {
  int bits = 0;
  std::int64_t group = 0;
  bool operator==(const IntegerFormat&) const = default;
};

struct QuantizedMatrix {
  at::Tensor weight;
  Scales scales;
};

/// Inputs that share a scale: `wanted` if that divides `inputs` and is a multiple of 32, else (0)
/// the largest of 128, 64 and 32 that does; 0 where none does.
std::int64_t group_size(std::int64_t inputs, std::int64_t wanted);

/// Of a float matrix on any device; bits 8 or 4, symmetric. int8: the greatest magnitude of a group
/// becomes 127. int4: the greatest one becomes -8 (as llama.cpp's Q4_0), or what a shorter scale
/// gives where the sum of squared errors is then smaller. `group` divides the inputs and is a
/// multiple of 32.
QuantizedMatrix quantize(const at::Tensor& weight, int bits, std::int64_t group);

/// Inputs in a block of int4.
std::int64_t int4_block(std::int64_t group);

/// The weight of int4: q uint8 [outputs, inputs], values 0 to 15, in the blocks that belong to the
/// group.
at::Tensor pack_int4(const at::Tensor& q, std::int64_t group);

/// Float32 values of rows [begin, begin + count), on the weight's device.
at::Tensor dequantize(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                      std::int64_t count);

/// x weight^T + bias (undefined: none), of x's dtype. Differentiable where the weight is float.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                  const at::Tensor& bias);
/// The same with a float matrix that lies in parts, one below the other.
at::Tensor linear(const at::Tensor& x, const std::vector<at::Tensor>& parts,
                  const at::Tensor& bias);

}  // namespace anyaccel::llm
