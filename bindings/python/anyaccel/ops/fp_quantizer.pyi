from typing import Any

import torch
from torch import Tensor

def quantize(out: Tensor, val: Tensor, group_size: int, stochastic_rounding: bool | int, q_bits: int, q_mantisa_bits: int) -> Tensor:
    """Quantize `val` into `out`, uint8 [groups, group_size * q_bits / 8 + 4], and return `out`.

    Stochastic rounding draws a seed from torch's host generator, so the same manual_seed() gives
    the same codes.
    """

def dequantize(val: Tensor, val_q: Tensor, group_size: int, q_mantisa_bits: int, q_exponent_bits: int) -> None:
    """Fill `val`, float32, float16 or bfloat16, with the dequantized values of `val_q`."""

def selective_dequantize(val: Tensor, val_q: Tensor, indexes: Tensor, group_size: int, q_mantisa_bits: int, q_exponent_bits: int) -> None:
    """Fill `val` with the dequantized slices `indexes` (int32 or int64) of `val_q` along its
    first dimension."""

def get_scales(out: Tensor, num_groups: int) -> Tensor:
    """Return the scales as float32 [num_groups, 1]. `out` contains the rows from quantize(), or
    only the last four bytes of each row.

    The result is a view if the alignment allows it.
    """

def get_default_quant_dtype() -> torch.dtype:
    """Return the dtype of quantized rows."""

def get_quant_range(q_bits: int | None = None) -> float:
    """Return the largest value of the format with `q_bits` bits: 8 (e4m3), 12, 6 or 4. Quantization
    maps a group's largest magnitude to this value.
    """

class Quantizer:
    group_size: int
    def __init__(self, group_size: int = 512) -> None: ...

class FP_Quantize(Quantizer):
    """DeepSpeed's quantizer for bfloat16 tensors. The configuration must have `group_size`."""

    scale: Tensor | None
    def __init__(self, quantization_config: Any) -> None: ...
    def quantize(self, input: Tensor, q_bits: int = 8, q_mantisa_bits: int = 3, stochastic_mode: bool = False,
                 return_meta_tensor: bool = False) -> Any:
        """Return rows of codes and scales, uint8 [groups, bytes]; with `return_meta_tensor`,
        8-bit codes in the input's shape, and the scales."""
    def to(self, *args: Any, **kwargs: Any) -> None:
        """Move the stored rows and scales with torch's `Tensor.to()`."""
    def get_scales(self) -> Tensor:
        """Return the scales as float32 [groups, 1]."""
    def dequantize(self, input_q: Tensor, fp_out: Tensor | None = None, q_bits: int = 8, q_mantisa_bits: int = 3,
                   scale: Tensor | None = None) -> Tensor:
        """Return the dequantized values.

        If `input_q` contains only codes, pass their scales as `scale`.
        """
    def selective_dequantize(self, input_q: Tensor, indexes: Tensor, fp_out: Tensor | None = None, q_bits: int = 8, q_mantisa_bits: int = 3,
                             scale: Tensor | None = None) -> Tensor:
        """Return the dequantized values of the slices `indexes` along the first of three
        dimensions."""

def matmul_fp8(inp: Tensor, weight: Tensor, scale: Tensor, quantization_group_size: int, quantizer: FP_Quantize) -> Tensor:
    """Multiply `inp` by a weight that `quantizer` quantized to 8 bits."""
