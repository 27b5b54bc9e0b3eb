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
