import enum

import torch
from torch import Tensor

class QuantizationType(enum.IntEnum):
    Symmetric = 0
    Asymmetric = 1

Symmetric = QuantizationType.Symmetric
Asymmetric = QuantizationType.Asymmetric

def quantize(input_vals: Tensor, groups: int, num_bits: int, quant_type: int) -> list[Tensor]:
    """Return [codes, parameters].

    Codes are int8 in the input's shape; with int4, the last dimension is half as long. Groups
    consist of consecutive elements.
    """

def dequantize(quantized_data: Tensor, params: Tensor, groups: int, num_bits: int, quant_type: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """Dequantize codes from quantize() to float16 or another dtype."""

def dequantize_fp32(quantized_data: Tensor, params: Tensor, groups: int, num_bits: int, quant_type: int) -> Tensor: ...

def dequantize_int4_to_half_experimental(data_in: Tensor, scale_buffer: Tensor, min_val_buffer: Tensor, num_group: int, group_size: int) -> Tensor:
    """Dequantize 4-bit codes from 0 to 15 to float16 [num_group, group_size]: code / scale +
    minimum. Each group has a float16 scale and minimum.
    """

def dequantize_int8_to_half_experimental(data_in: Tensor, scale_buffer: Tensor, min_val_buffer: Tensor, num_group: int, group_size: int) -> Tensor:
    """Dequantize 8-bit codes from 0 to 255 to float16; see dequantize_int4_to_half_experimental().
    """

def swizzle_quant(input_vals: Tensor, groups: int, num_bits: int, quant_type: int, pipeline_size: int, nodes: int,
                  devices_per_node: int) -> list[Tensor]:
    """Quantize, and reorder the groups for an all-to-all within each node followed by one between
    nodes. The codes are returned as one row.
    """

def quantized_reduction(input_vals: Tensor, input_scales: Tensor, in_groups: int, out_groups: int, num_bits: int, quant_type: int,
                        devices_per_node: int) -> list[Tensor]:
    """Return [codes, parameters] for the sum over `devices_per_node` devices, whose quantized
    values are concatenated in the inputs. `in_groups` is the total number of input groups,
    `out_groups` the number of groups in the sum.
    """
