"""What DeepSpeed's FPQuantizerBuilder().load() has: groups of numbers to floats of 8, 12, 6 or 4 bits and back.

A group of `group_size` successive elements becomes a row of uint8: its codes, one behind the other from the lowest bit upwards, then four
bytes, the step that codes are multiplied with, a float32. Formats: 8 bits with 3 (e4m3) or 2 bits of mantissa (e5m2), 12 (e4m7), 6 (e3m2),
4 (e2m1). What cannot be done is a ValueError."""

import torch

_RANGES = {(8, 3): 480.0, (8, 2): 114688.0, (12, 7): 510.0, (6, 2): 28.0, (4, 1): 6.0}


def quantize(out, val, group_size, stochastic_rounding, q_bits, q_mantisa_bits):
    """Fills and returns `out`, uint8 [groups, group_size * q_bits / 8 + 4]. Stochastic rounding draws a seed from torch's generator of the
    host: the same manual_seed() gives the same codes."""
    seed = int(torch.randint(-2**63, 2**63 - 1, ())) if stochastic_rounding else 0
    torch.ops.anyaccel.fp_quantizer_quantize(out, val, group_size, q_bits, q_mantisa_bits, bool(stochastic_rounding), seed)
    return out


def dequantize(val, val_q, group_size, q_mantisa_bits, q_exponent_bits):
    """Fills `val`, float32, float16 or bfloat16, with what the rows of `val_q` stand for."""
    torch.ops.anyaccel.fp_quantizer_dequantize(val, val_q, group_size, q_mantisa_bits, q_exponent_bits)


def selective_dequantize(val, val_q, indexes, group_size, q_mantisa_bits, q_exponent_bits):
    """Fills `val` with parts of what `val_q` stands for, which has such parts along its first dimension: those of `indexes`, int32 or int64."""
    torch.ops.anyaccel.fp_quantizer_selective_dequantize(val, val_q, indexes, group_size, q_mantisa_bits, q_exponent_bits)


def get_scales(out, num_groups):
    """The steps, float32 [num_groups, 1], of rows as quantize() made them, or of their last four bytes; a view where their place allows it."""
    if out.dtype != torch.uint8 or num_groups < 0 or (out.numel() % num_groups if num_groups else out.numel()):
        raise ValueError(f"[fp_quantizer_get_scales] the rows are not so many groups; got {out.dtype} {list(out.shape)} for {num_groups}, "
                         "want uint8 [groups, bytes]")
    if num_groups == 0:
        return out.new_empty((0, 1), dtype=torch.float32)
    rows = out.reshape(num_groups, -1)
    if rows.shape[1] < 4:
        raise ValueError(f"[fp_quantizer_get_scales] a row has no step; got {rows.shape[1]} bytes, want 4 or more")
    steps = rows[:, -4:]
    in_place = steps.storage_offset() % 4 == 0 and steps.stride(1) == 1 and (steps.stride(0) % 4 == 0 or num_groups == 1)
    return (steps if in_place else steps.contiguous()).view(torch.float32)


def get_default_quant_dtype():
    """The dtype of rows."""
    return torch.uint8


def get_quant_range(q_bits=None):
    """The greatest number of a format of 8 (e4m3), 12, 6 or 4 bits, which a group's greatest magnitude becomes."""
    for (bits, mantissa), greatest in _RANGES.items():
        if bits == q_bits:
            return greatest
    raise ValueError(f"[fp_quantizer_get_quant_range] there is no such format; got {q_bits} bits, want 8, 12, 6 or 4")
