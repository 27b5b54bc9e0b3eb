"""The functions that DeepSpeed's QuantizerBuilder().load() returns: quantization to int8 or int4
with a scale per group, and dequantization.

`quant_type` is Symmetric or Asymmetric. Parameters are float32: [groups, 1] with the scale if
symmetric, or [groups, 2] with the scale and the value of code 0 if asymmetric. With int4, each byte
holds two consecutive codes along the last dimension, the first in the upper four bits. Invalid
arguments raise ValueError.
"""

import enum

import torch

from ._bind import Ops

_ops = Ops("QuantizerBuilder")


class QuantizationType(enum.IntEnum):
    Symmetric = 0
    Asymmetric = 1


Symmetric = QuantizationType.Symmetric
Asymmetric = QuantizationType.Asymmetric


def _asymmetric(quant_type):
    return QuantizationType(quant_type) is Asymmetric


def quantize(input_vals, groups, num_bits, quant_type):
    """Return [codes, parameters].

    Codes are int8 in the input's shape; with int4, the last dimension is half as long. Groups
    consist of consecutive elements.
    """
    return list(_ops.quantizer_quantize(input_vals, groups, num_bits, _asymmetric(quant_type)))


def dequantize(quantized_data, params, groups, num_bits, quant_type, dtype=torch.float16):
    """Dequantize codes from quantize() to float16 or another dtype."""
    return _ops.quantizer_dequantize(quantized_data, params, groups, num_bits, _asymmetric(quant_type), dtype)


def dequantize_fp32(quantized_data, params, groups, num_bits, quant_type):
    return dequantize(quantized_data, params, groups, num_bits, quant_type, torch.float32)


def dequantize_int4_to_half_experimental(data_in, scale_buffer, min_val_buffer, num_group, group_size):
    """Dequantize 4-bit codes from 0 to 15 to float16 [num_group, group_size]: code / scale +
    minimum. Each group has a float16 scale and minimum.
    """
    return _ops.quantizer_dequantize_half(data_in, scale_buffer, min_val_buffer, num_group, group_size, 4)


def dequantize_int8_to_half_experimental(data_in, scale_buffer, min_val_buffer, num_group, group_size):
    """Dequantize 8-bit codes from 0 to 255 to float16; see dequantize_int4_to_half_experimental().
    """
    return _ops.quantizer_dequantize_half(data_in, scale_buffer, min_val_buffer, num_group, group_size, 8)


def swizzle_quant(input_vals, groups, num_bits, quant_type, pipeline_size, nodes, devices_per_node):
    """Quantize, and reorder the groups for an all-to-all within each node followed by one between
    nodes. The codes are returned as one row.
    """
    return list(_ops.quantizer_swizzle(input_vals, groups, num_bits, _asymmetric(quant_type), pipeline_size, nodes,
                                                     devices_per_node))


def quantized_reduction(input_vals, input_scales, in_groups, out_groups, num_bits, quant_type, devices_per_node):
    """Return [codes, parameters] for the sum over `devices_per_node` devices, whose quantized
    values are concatenated in the inputs. `in_groups` is the total number of input groups,
    `out_groups` the number of groups in the sum.
    """
    return list(_ops.quantizer_reduce(input_vals, input_scales, in_groups, out_groups, num_bits, _asymmetric(quant_type),
                                                    devices_per_node))
