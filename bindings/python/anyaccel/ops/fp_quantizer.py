"""The functions that DeepSpeed's FPQuantizerBuilder().load() returns: quantization to 8-, 12-, 6-
or 4-bit floats, and dequantization.

A group of `group_size` consecutive elements becomes a row of uint8: its codes, packed from the
lowest bit upwards, and then the scale of the codes as a float32. The formats are 8 bits with 3
(e4m3) or 2 mantissa bits (e5m2), 12 bits (e4m7), 6 bits (e3m2) and 4 bits (e2m1). Invalid arguments
raise ValueError.
"""

import torch

from ._bind import Ops

_ops = Ops("FPQuantizerBuilder")

__path__ = []  # a package in DeepSpeed; see _deepspeed_paths.py

_RANGES = {(8, 3): 480.0, (8, 2): 114688.0, (12, 7): 510.0, (6, 2): 28.0, (4, 1): 6.0}


def quantize(out, val, group_size, stochastic_rounding, q_bits, q_mantisa_bits):
    """Quantize `val` into `out`, uint8 [groups, group_size * q_bits / 8 + 4], and return `out`.

    Stochastic rounding draws a seed from torch's host generator, so the same manual_seed() gives
    the same codes.
    """
    seed = int(torch.randint(-2**63, 2**63 - 1, ())) if stochastic_rounding else 0
    _ops.fp_quantizer_quantize(out, val, group_size, q_bits, q_mantisa_bits, bool(stochastic_rounding), seed)
    return out


def dequantize(val, val_q, group_size, q_mantisa_bits, q_exponent_bits):
    """Fill `val`, float32, float16 or bfloat16, with the dequantized values of `val_q`."""
    _ops.fp_quantizer_dequantize(val, val_q, group_size, q_mantisa_bits, q_exponent_bits)


def selective_dequantize(val, val_q, indexes, group_size, q_mantisa_bits, q_exponent_bits):
    """Fill `val` with the dequantized slices `indexes` (int32 or int64) of `val_q` along its
    first dimension."""
    _ops.fp_quantizer_selective_dequantize(val, val_q, indexes, group_size, q_mantisa_bits, q_exponent_bits)


def get_scales(out, num_groups):
    """Return the scales as float32 [num_groups, 1]. `out` contains the rows from quantize(), or
    only the last four bytes of each row.

    The result is a view if the alignment allows it.
    """
    if out.dtype != torch.uint8 or num_groups < 0 or (out.numel() % num_groups if num_groups else out.numel()):
        raise ValueError(f"[fp_quantizer_get_scales] the rows have the wrong shape or dtype for the number of groups; "
                         f"got {out.dtype} {list(out.shape)} for {num_groups} groups, want uint8 [groups, bytes]")
    if num_groups == 0:
        return out.new_empty((0, 1), dtype=torch.float32)
    rows = out.reshape(num_groups, -1)
    if rows.shape[1] < 4:
        raise ValueError(f"[fp_quantizer_get_scales] the rows contain no scale; got {rows.shape[1]} bytes, want 4 bytes or more")
    steps = rows[:, -4:]
    in_place = steps.storage_offset() % 4 == 0 and steps.stride(1) == 1 and (steps.stride(0) % 4 == 0 or num_groups == 1)
    return (steps if in_place else steps.contiguous()).view(torch.float32)


def get_default_quant_dtype():
    """Return the dtype of quantized rows."""
    return torch.uint8


def get_quant_range(q_bits=None):
    """Return the largest value of the format with `q_bits` bits: 8 (e4m3), 12, 6 or 4. Quantization
    maps a group's largest magnitude to this value.
    """
    for (bits, mantissa), greatest in _RANGES.items():
        if bits == q_bits:
            return greatest
    raise ValueError(f"[fp_quantizer_get_quant_range] unknown format; got {q_bits} bits, want 8, 12, 6 or 4")


class Quantizer:
    """Base class for DeepSpeed's quantizers."""

    def __init__(self, group_size=512):
        self.group_size = group_size


class FP_Quantize(Quantizer):
    """DeepSpeed's quantizer for bfloat16 tensors. The configuration must have `group_size`."""

    # `q_mantisa_bits` for the formats that have only one variant. DeepSpeed passes 4 for 12 bits,
    # although that format has 7 mantissa bits.
    _MANTISSA = {12: 4, 6: 2, 4: 1}

    def __init__(self, quantization_config):
        super().__init__(quantization_config.group_size)
        self.q_config = quantization_config
        self.orig_dtype = self.orig_shape = self.num_groups = self.input_q = self.scale = None

    def _mantissa(self, q_bits, q_mantisa_bits):
        return self._MANTISSA.get(q_bits, q_mantisa_bits)

    def quantize(self, input, q_bits=8, q_mantisa_bits=3, stochastic_mode=False, return_meta_tensor=False):
        """Return rows of codes and scales, uint8 [groups, bytes]; with `return_meta_tensor`,
        8-bit codes in the input's shape, and the scales."""
        if input.dtype != torch.bfloat16 or (return_meta_tensor and q_bits != 8):
            raise ValueError(f"[FP_Quantize] unsupported input; got {input.dtype} with q_bits={q_bits}, want bfloat16, and 8 bits with return_meta_tensor")
        self.orig_dtype, self.orig_shape = input.dtype, input.shape
        self.num_groups = input.numel() // self.group_size
        rows = torch.ones(self.num_groups, self.group_size * q_bits // 8 + 4, dtype=torch.uint8, device=input.device)
        rows = quantize(rows, input, self.group_size, stochastic_mode, q_bits, self._mantissa(q_bits, q_mantisa_bits))
        if not return_meta_tensor:
            self.input_q = rows
            return rows
        codes, steps = rows.split(self.group_size, dim=-1)
        self.scale = steps.contiguous()
        return codes.contiguous().reshape(input.shape), self.scale

    def to(self, *args, **kwargs):
        """Move the stored rows and scales with torch's `Tensor.to()`."""
        for name in ("input_q", "scale"):
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name).to(*args, **kwargs))

    def get_scales(self):
        """Return the scales as float32 [groups, 1]."""
        return get_scales(self.scale, self.num_groups)

    def _require_shape(self):
        if self.orig_shape is None:
            raise ValueError("[FP_Quantize] nothing has been quantized; call quantize() first")
        return self.orig_shape

    def _rows(self, input_q, scale):
        if scale is None:
            return input_q
        if input_q.numel() != self.orig_shape.numel():
            raise ValueError(f"[FP_Quantize] wrong number of codes; got {input_q.numel()}, want {self.orig_shape.numel()}")
        return torch.cat([input_q.reshape(-1, self.group_size), scale], dim=-1).contiguous()

    def dequantize(self, input_q, fp_out=None, q_bits=8, q_mantisa_bits=3, scale=None):
        """Return the dequantized values.

        If `input_q` contains only codes, pass their scales as `scale`.
        """
        shape = self._require_shape()
        fp_out = torch.empty(shape, dtype=self.orig_dtype, device=input_q.device) if fp_out is None else fp_out
        mantissa = self._mantissa(q_bits, q_mantisa_bits)
        dequantize(fp_out, self._rows(input_q, scale), self.group_size, mantissa, q_bits - mantissa - 1)
        return fp_out

    def selective_dequantize(self, input_q, indexes, fp_out=None, q_bits=8, q_mantisa_bits=3, scale=None):
        """Return the dequantized values of the slices `indexes` along the first of three
        dimensions."""
        shape = self._require_shape()
        if len(shape) != 3:
            raise ValueError(f"[FP_Quantize] wrong number of dimensions; got {len(shape)}, want 3")
        if fp_out is None:
            fp_out = torch.empty((indexes.shape[0], *shape[1:]), dtype=self.orig_dtype, device=input_q.device)
        mantissa = self._mantissa(q_bits, q_mantisa_bits)
        selective_dequantize(fp_out, self._rows(input_q, scale), indexes, self.group_size, mantissa, q_bits - mantissa - 1)
        return fp_out


def matmul_fp8(inp, weight, scale, quantization_group_size, quantizer):
    """Multiply `inp` by a weight that `quantizer` quantized to 8 bits."""
    return torch.matmul(inp, quantizer.dequantize(weight, scale=scale))
