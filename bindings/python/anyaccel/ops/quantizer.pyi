import enum

import torch
from torch import Tensor

class QuantizationType(enum.IntEnum):
    Symmetric = 0
    Asymmetric = 1

Symmetric = QuantizationType.Symmetric
Asymmetric = QuantizationType.Asymmetric

def quantize(input_vals: Tensor, groups: int, num_bits: int, quant_type: int) -> list[Tensor]:
    """[codes, parameters]: int8 in the input's shape, its last dimension half as long with int4; groups are of successive elements."""

def dequantize(quantized_data: Tensor, params: Tensor, groups: int, num_bits: int, quant_type: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """The values that quantize() made codes of, as float16 or another dtype."""

def dequantize_fp32(quantized_data: Tensor, params: Tensor, groups: int, num_bits: int, quant_type: int) -> Tensor: ...

def dequantize_int4_to_half_experimental(data_in: Tensor, scale_buffer: Tensor, min_val_buffer: Tensor, num_group: int, group_size: int) -> Tensor:
    """float16 [num_group, group_size] of 4-bit codes from 0 to 15: code / scale + least value of the group, both float16."""

def dequantize_int8_to_half_experimental(data_in: Tensor, scale_buffer: Tensor, min_val_buffer: Tensor, num_group: int, group_size: int) -> Tensor:
    """The same of codes from 0 to 255."""

def swizzle_quant(input_vals: Tensor, groups: int, num_bits: int, quant_type: int, pipeline_size: int, nodes: int,
                  devices_per_node: int) -> list[Tensor]:
    """quantize() to one row, its groups in the order in which an all-to-all in each node, then one between them, wants them."""

def quantized_reduction(input_vals: Tensor, input_scales: Tensor, in_groups: int, out_groups: int, num_bits: int, quant_type: int,
                        devices_per_node: int) -> list[Tensor]:
    """[codes, parameters] of the sum of what `devices_per_node` devices quantized, which lie one behind the other; `in_groups` counts all of
    theirs, `out_groups` those of the sum."""
