// Weight matrices: floating-point, or quantized to integers with one scale per group of inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace anyaccel::llm {

/// Scales and zero points of a quantized matrix; both undefined for a floating-point matrix.
///
/// int8: weight int8 [outputs, inputs], value = scale * q, q in -127..127.
///
/// int4: weight uint8 [outputs, inputs / 2], value = scale * (q - zero), q in 0..15. Rows consist
/// of blocks of 64 inputs (32 if the group is not a multiple of 64). A block has 16 (8)
/// little-endian 16-bit words; nibble j of word i is input 16 j + i (8 j + i) of the block.
struct Scales {
  at::Tensor scales;  ///< float32 [outputs, groups]
  at::Tensor zeros;   ///< uint8 [outputs, groups] for int4; undefined: all 8
};

/// Format of a quantized matrix: 8 or 4 bits, and the group size.
struct IntegerFormat {
  int bits = 0;
  std::int64_t group = 0;
  bool operator==(const IntegerFormat&) const = default;
};

struct QuantizedMatrix {
  at::Tensor weight;
  Scales scales;
};

/// Returns the group size, which is the number of inputs that share a scale: `wanted` if it divides
/// `inputs` and is a multiple of 32. If `wanted` is 0, returns the largest of 128, 64 and 32 that
/// divides `inputs`. Returns 0 if no size fits.
std::int64_t group_size(std::int64_t inputs, std::int64_t wanted);

/// Quantizes a float matrix on any device symmetrically to 8 or 4 bits. int8: the largest magnitude
/// in a group becomes 127. int4: the element with the largest magnitude becomes -8 (as in
/// llama.cpp's Q4_0), unless a smaller scale lowers the sum of squared errors. `group` must divide
/// the inputs and be a multiple of 32.
QuantizedMatrix quantize(const at::Tensor& weight, int bits, std::int64_t group);

/// Number of inputs in an int4 block.
std::int64_t int4_block(std::int64_t group);

/// Packs q, uint8 [outputs, inputs] with values 0 to 15, into the int4 layout for this group size.
at::Tensor pack_int4(const at::Tensor& q, std::int64_t group);

/// Returns rows [begin, begin + count) as float32 on the weight's device.
at::Tensor dequantize(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                      std::int64_t count);

/// Computes x weight^T + bias (undefined: no bias) in x's dtype. Differentiable; a quantized weight
/// gets no gradient. Its backward pass dequantizes the weight again.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                  const at::Tensor& bias);
/// Returns the gradient of linear()'s x, gradient * weight, in the gradient's dtype. Dequantizes a
/// chunk of the weight at a time.
at::Tensor linear_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                           const Scales& scales);
/// Like linear(), for a float matrix that is split by rows into parts.
at::Tensor linear(const at::Tensor& x, const std::vector<at::Tensor>& parts,
                  const at::Tensor& bias);

}  // namespace anyaccel::llm
