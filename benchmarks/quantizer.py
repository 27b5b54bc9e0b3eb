"""Times quantizing and dequantizing 64 M values with AnyAccel or torchao and with plain torch,
alternating on the same arrays.

usage: quantizer.py [ours|torchao] [MILLIONS_OF_VALUES]

Prints milliseconds. "copy" is torch's copy of the same number of float32 values into existing
memory, which shows the memory bandwidth.
"""
import json
import os
import sys

import torch

from by_turns import by_turns

GROUP = 2048  # group size for int8 and int4, similar to DeepSpeed's; small floats use 512, DeepSpeed's default
SMALL_FLOATS = {"fp8": (8, 3), "fp12": (12, 4), "fp6": (6, 2)}


def plain_quantize(x, bits):
    """Quantize symmetrically, as PyTorch programs write it."""
    grouped, levels = x.view(-1, GROUP), 2.0**(bits - 1)
    scale = levels / grouped.abs().amax(1, keepdim=True).float()
    codes = (grouped * scale).round_().clamp_(-levels, levels - 1).to(torch.int8)
    if bits == 4:
        codes = (codes[:, 0::2] << 4) | (codes[:, 1::2] & 15)
    return codes, 1 / scale


def plain_dequantize(codes, step, bits, dtype):
    if bits == 4:
        codes = torch.stack([codes >> 4, (codes << 4) >> 4], -1).flatten(-2)
    return (codes * step).to(dtype)


def plain_fp8(x):
    """Quantize to torch's e4m3, whose largest value is 448."""
    grouped = x.view(-1, 512)
    step = grouped.abs().amax(1, keepdim=True).float() / 448
    return (grouped / step).to(torch.float8_e4m3fn), step


def integer_sides(q, x, bits):
    groups = x.numel() // GROUP
    codes, params = q.quantize(x, groups, bits, q.Symmetric)
    plain_codes, step = plain_quantize(x, bits)
    assert torch.equal(codes.view(-1), plain_codes.view(-1)) and torch.allclose(params, step)
    assert torch.equal(q.dequantize(codes, params, groups, bits, q.Symmetric, x.dtype).view(-1), plain_dequantize(codes.view(groups, -1), step, bits, x.dtype).view(-1))
    return {f"quantize_int{bits}": (lambda: q.quantize(x, groups, bits, q.Symmetric), lambda: plain_quantize(x, bits)),
            f"dequantize_int{bits}": (lambda: q.dequantize(codes, params, groups, bits, q.Symmetric, x.dtype),
                                      lambda: plain_dequantize(plain_codes, step, bits, x.dtype))}


def float_sides(f, x):
    out = {}
    for name, (bits, mantissa) in SMALL_FLOATS.items():
        rows = torch.zeros(x.numel() // 512, 64 * bits + 4, dtype=torch.uint8)
        read = torch.zeros_like(x)
        f.quantize(rows, x, 512, False, bits, mantissa)
        out[f"quantize_{name}"] = (lambda rows=rows, bits=bits, mantissa=mantissa: f.quantize(rows, x, 512, False, bits, mantissa), None)
        out[f"dequantize_{name}"] = (lambda rows=rows, read=read, bits=bits, mantissa=mantissa: f.dequantize(read, rows, 512, mantissa, bits - mantissa - 1),
                                     None)
    codes, step = plain_fp8(x)
    out["quantize_fp8"] = (out["quantize_fp8"][0], lambda: plain_fp8(x))
    out["dequantize_fp8"] = (out["dequantize_fp8"][0], lambda: (codes.to(x.dtype) * step).to(x.dtype))
    return out


def torchao_sides(x):
    from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, dequantize_affine, quantize_affine
    grouped = x.view(-1, GROUP)

    def quantize():
        scale, zero = choose_qparams_affine(grouped, MappingType.SYMMETRIC, (1, GROUP), torch.int8)
        return quantize_affine(grouped, (1, GROUP), scale, zero, torch.int8), scale, zero

    codes, scale, zero = quantize()
    return {"quantize_int8": (None, quantize),
            "dequantize_int8": (None, lambda: dequantize_affine(codes, (1, GROUP), scale, zero, torch.int8, output_dtype=x.dtype))}


def main():
    side = sys.argv[1] if len(sys.argv) > 1 else "ours"
    values = int(float(sys.argv[2] if len(sys.argv) > 2 else 64) * (1 << 20))
    numbers = torch.Generator().manual_seed(0)
    source, target = torch.randn(values, generator=numbers), torch.zeros(values)
    out = {}
    for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
        torch.set_num_threads(threads)
        for dtype, word in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            x = source.to(dtype)
            if side == "torchao":
                works = torchao_sides(x)
            else:
                import anyaccel
                load = lambda name: anyaccel.get_accelerator().create_op_builder(name).load()  # noqa: E731
                works = {**integer_sides(load("QuantizerBuilder"), x, 8), **integer_sides(load("QuantizerBuilder"), x, 4)}
                if dtype == torch.bfloat16:
                    works.update(float_sides(load("FPQuantizerBuilder"), x))
            for work, (ours, plain) in works.items():
                calls = {name: call for name, call in (("ours", ours), ("torch" if side == "ours" else side, plain)) if call}
                calls["copy"] = lambda: target.copy_(source)
                for name, microseconds in by_turns(calls, turns=3).items():
                    out[f"{name}_{work}_{word}_{threads}t_ms"] = microseconds / 1e3
    print(json.dumps(out))


main()
