from typing import Any

import torch
from torch import Tensor

def quantize(out: Tensor, val: Tensor, group_size: int, stochastic_rounding: bool | int, q_bits: int, q_mantisa_bits: int) -> Tensor:
    """Fills and returns `out`, uint8 [groups, group_size * q_bits / 8 + 4]. Stochastic rounding draws a seed from torch's generator of the
    host: the same manual_seed() gives the same codes."""

def dequantize(val: Tensor, val_q: Tensor, group_size: int, q_mantisa_bits: int, q_exponent_bits: int) -> None:
    """Fills `val`, float32, float16 or bfloat16, with what the rows of `val_q` stand for."""

def selective_dequantize(val: Tensor, val_q: Tensor, indexes: Tensor, group_size: int, q_mantisa_bits: int, q_exponent_bits: int) -> None:
    """Fills `val` with parts of what `val_q` stands for, which has such parts along its first dimension: those of `indexes`, int32 or int64."""

def get_scales(out: Tensor, num_groups: int) -> Tensor:
    """The steps, float32 [num_groups, 1], of rows as quantize() made them, or of their last four bytes; a view where their place allows it."""

def get_default_quant_dtype() -> torch.dtype:
    """The dtype of rows."""

def get_quant_range(q_bits: int | None = None) -> float:
    """The greatest number of a format of 8 (e4m3), 12, 6 or 4 bits, which a group's greatest magnitude becomes."""

class Quantizer:
    group_size: int
    def __init__(self, group_size: int = 512) -> None: ...

class FP_Quantize(Quantizer):
    """DeepSpeed's quantizer of a bfloat16 tensor. The configuration has `group_size`."""

    scale: Tensor | None
    def __init__(self, quantization_config: Any) -> None: ...
    def quantize(self, input: Tensor, q_bits: int = 8, q_mantisa_bits: int = 3, stochastic_mode: bool = False,
                 return_meta_tensor: bool = False) -> Any:
        """Rows of codes and steps, uint8 [groups, bytes]; with `return_meta_tensor`, codes of 8 bits in the input's shape and the steps."""
    def to(self, *args: Any, **kwargs: Any) -> None:
        """Moves the kept rows and steps."""
    def get_scales(self) -> Tensor:
        """The steps as float32 [groups, 1]."""
    def dequantize(self, input_q: Tensor, fp_out: Tensor | None = None, q_bits: int = 8, q_mantisa_bits: int = 3,
                   scale: Tensor | None = None) -> Tensor:
        """The values; of codes alone with their steps as `scale`."""
    def selective_dequantize(self, input_q: Tensor, indexes: Tensor, fp_out: Tensor | None = None, q_bits: int = 8, q_mantisa_bits: int = 3,
                             scale: Tensor | None = None) -> Tensor:
        """The values of the parts `indexes` along the first of three dimensions."""

def matmul_fp8(inp: Tensor, weight: Tensor, scale: Tensor, quantization_group_size: int, quantizer: FP_Quantize) -> Tensor:
    """inp times a weight that `quantizer` made codes of 8 bits of."""
