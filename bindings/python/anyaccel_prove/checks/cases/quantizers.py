"""Integer and small floating-point quantization. Codes have the same bits on all devices."""

import torch

from ..table import FLOATS, Case

GROUPS = 3


def values(draw, size, dtype):
    return [draw.normal(GROUPS, 2 * size, dtype=dtype, scale=3)]


def integers(bits, kind):
    def call(module, tensors):
        codes, params = module.quantize(tensors[0], GROUPS, bits, kind)
        return [
            codes, params,
            module.dequantize_fp32(codes, params, GROUPS, bits, kind),
            module.dequantize(codes, params, GROUPS, bits, kind)
        ]

    return call


def plain_int8(tensors):
    """Symmetric int8 codes, scales, and the values that they represent."""
    x = tensors[0].float()
    most = x.abs().amax(1, keepdim=True)
    scale = torch.where(most == 0, torch.ones_like(most), 256 / (2 * most))
    codes = (x * scale).round().clamp(-128, 127)
    wide = (codes * (1 / scale)).double()
    return [codes.to(torch.int8), 1 / scale, wide, wide]


def swizzled(draw, size, dtype):
    return [draw.normal(8, 4 * size, dtype=dtype)]


def all_to_all(bits):
    """Both halves of the quantized all-to-all of gradients, for four devices in one process."""
    def call(module, tensors):
        codes, params = module.swizzle_quant(tensors[0], 8, bits, module.Symmetric, 1, 2, 2)
        made, made_params = module.quantized_reduction(codes, params, 8, 4, bits, module.Symmetric, 2)
        return [codes, params, made, made_params]

    return call


def halves(draw, size, dtype):
    return [
        draw.integers(0, 256, 6, 2 * size, dtype=torch.uint8),
        draw.positive(6, 1, dtype=dtype) + 0.5,
        draw.normal(6, 1, dtype=dtype)
    ]


def to_half(module, tensors):
    codes, scale, least = tensors
    return [
        module.dequantize_int8_to_half_experimental(codes, scale, least, 6, codes.shape[1]),
        module.dequantize_int4_to_half_experimental(codes, scale, least, 6, 2 * codes.shape[1])
    ]


FORMATS = {"e4m3": (8, 3), "e5m2": (8, 2), "e4m7": (12, 4), "e3m2": (6, 2), "e2m1": (4, 1)}


def groups(draw, size, dtype):
    """`size` is the number of groups; a group has 24 elements."""
    return [draw.normal(size, 24, dtype=dtype)]


def codes_only(bits, mantissa):
    def call(module, tensors):
        x = tensors[0]
        rows = x.new_zeros((x.shape[0], x.shape[1] * bits // 8 + 4), dtype=torch.uint8)
        module.quantize(rows, x, x.shape[1], False, bits, mantissa)
        out = torch.empty_like(x)
        module.dequantize(out, rows, x.shape[1], mantissa, bits - mantissa - 1)
        return [rows, out]

    return call


CASES = {
    "QuantizerBuilder": [
        *(Case(f"int{bits}-{name}", values, integers(bits, kind), dtypes=FLOATS, exact=True, sizes=(1, 3, 17, 1003))
          for bits in (8, 4) for name, kind in (("symmetric", 0), ("asymmetric", 1))),
        Case("int8-formula", values, integers(8, 0), sizes=(1, 3, 17, 1003), exact=True, plain=plain_int8, looser=50),
        *(Case(f"all-to-all-int{bits}", swizzled, all_to_all(bits), dtypes=FLOATS, sizes=(1, 3, 17, 251), exact=True)
          for bits in (8, 4)),
        Case("to-half", halves, to_half, dtypes=("float16", ), exact=True)
    ],
    "FPQuantizerBuilder": [Case(name, groups, codes_only(*form), dtypes=FLOATS, exact=True) for name, form in FORMATS.items()],
}
