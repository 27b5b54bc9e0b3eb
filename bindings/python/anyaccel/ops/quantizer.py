"""What DeepSpeed's QuantizerBuilder().load() has: groups of numbers to int8 or int4 and back, with a scale for each group.

`quant_type` is Symmetric or Asymmetric. Parameters are float32 [groups, 1], the step between codes, or [groups, 2] with the value of code 0.
int4 are two to a byte of the last dimension, the first in the upper four bits. What cannot be done is a ValueError."""

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
    """[codes, parameters]: int8 in the input's shape, its last dimension half as long with int4; groups are of successive elements."""
    return list(_ops.quantizer_quantize(input_vals, groups, num_bits, _asymmetric(quant_type)))


def dequantize(quantized_data, params, groups, num_bits, quant_type, dtype=torch.float16):
    """The values that quantize() made codes of, as float16 or another dtype."""
    return _ops.quantizer_dequantize(quantized_data, params, groups, num_bits, _asymmetric(quant_type), dtype)


def dequantize_fp32(quantized_data, params, groups, num_bits, quant_type):
    return dequantize(quantized_data, params, groups, num_bits, quant_type, torch.float32)


def dequantize_int4_to_half_experimental(data_in, scale_buffer, min_val_buffer, num_group, group_size):
    """float16 [num_group, group_size] of 4-bit codes from 0 to 15: code / scale + least value of the group, both float16."""
    return _ops.quantizer_dequantize_half(data_in, scale_buffer, min_val_buffer, num_group, group_size, 4)


def dequantize_int8_to_half_experimental(data_in, scale_buffer, min_val_buffer, num_group, group_size):
    """The same of codes from 0 to 255."""
    return _ops.quantizer_dequantize_half(data_in, scale_buffer, min_val_buffer, num_group, group_size, 8)


def swizzle_quant(input_vals, groups, num_bits, quant_type, pipeline_size, nodes, devices_per_node):
    """quantize() to one row, its groups in the order in which an all-to-all in each node, then one between them, wants them."""
    return list(_ops.quantizer_swizzle(input_vals, groups, num_bits, _asymmetric(quant_type), pipeline_size, nodes,
                                                     devices_per_node))


def quantized_reduction(input_vals, input_scales, in_groups, out_groups, num_bits, quant_type, devices_per_node):
    """[codes, parameters] of the sum of what `devices_per_node` devices quantized, which lie one behind the other; `in_groups` counts all of
    theirs, `out_groups` those of the sum."""
    return list(_ops.quantizer_reduce(input_vals, input_scales, in_groups, out_groups, num_bits, _asymmetric(quant_type),
                                                    devices_per_node))
