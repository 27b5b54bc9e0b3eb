"""Products with quantized matrices, a decoding step, an encoder, and the steps of DeepSpeed's
injected layers and of its inference v2.
"""

import torch
from torch.nn import functional as F

from ..small_decoder import SmallDecoder
from ..table import FLOATS, Case

OUTPUTS, INPUTS, GROUP = 130, 384, 128


def product_inputs(draw, size, dtype):
    """`size` is the number of rows."""
    return [
        draw.normal(size, INPUTS, dtype=dtype),
        draw.normal(OUTPUTS, INPUTS, dtype=dtype, scale=INPUTS**-0.5),
        draw.normal(OUTPUTS, dtype=dtype)
    ]


def product(module, tensors):
    x, weight, bias = tensors
    return [torch.ops.anyaccel.inference_linear(x, weight, None, None, bias.float())]


def plain_product(tensors):
    return [F.linear(*tensors)]


def quantized_product(bits):
    def call(module, tensors):
        x, weight, bias = tensors
        codes, scales = torch.ops.anyaccel.inference_quantize(weight, bits, GROUP)
        wide = torch.ops.anyaccel.inference_dequantize(codes, scales, None, 0, OUTPUTS, torch.float32)
        return [codes, scales, wide, torch.ops.anyaccel.inference_linear(x, codes, scales, None, bias.float())]

    return call


def decoder_inputs(draw, size, dtype):
    """`size` is the number of positions in the cache, before three new rows."""
    return SmallDecoder(draw, dtype).inputs(draw, size, 3)


def decode(module, tensors):
    return SmallDecoder.call(tensors)


def encoder_inputs(draw, size, dtype):
    """`size` is the number of rows of the first of two texts."""
    hidden, inner = 48, 100
    weights = []
    for shape in ((3 * hidden, hidden), (hidden, hidden), None, (inner, hidden), (hidden, inner), None):
        weights += [draw.normal(*shape, scale=shape[1] ** -0.5), draw.normal(shape[0], scale=0.3)] if shape else \
                   [1 + draw.normal(hidden, scale=0.3), draw.normal(hidden, scale=0.3)]
    return [draw.normal(size + 5, hidden), *weights]


def encode(module, tensors):
    x, *weights = tensors
    flat = []
    for each in weights:
        if each.dim() == 2:
            packed = torch.zeros(-(-each.shape[0] // 64), each.shape[1], 64, device=each.device)
            torch.ops.anyaccel.inference_pack(each, packed)
            each = packed
        flat.append(each)
    torch.ops.anyaccel.inference_encode(x, flat, [x.shape[0] - 5, 5] if x.shape[0] > 5 else [5], 4, 1, 1e-6)
    return [x]


def rows_inputs(draw, size, dtype):
    """`size` is half the number of channels."""
    return [draw.normal(2, 5, 2 * size, dtype=dtype) for _ in range(2)] + [draw.normal(2 * size, dtype=dtype) for _ in range(3)]


def injected(module, tensors):
    x, residual, gamma, beta, bias = tensors
    return [
        module.layer_norm(x, gamma, beta, 1e-5), *module.layer_norm_residual_store_pre_ln_res(x, bias, residual, gamma, beta, 1e-5),
        module.rms_norm(x, gamma, 1e-5), *module.pre_rms_norm(x, residual, gamma, 1e-5),
        module.gated_activation(x, bias, 4)
    ]


def rms(x, gamma):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma


def plain_injected(tensors):
    x, residual, gamma, beta, bias = tensors

    def norm(value):
        return F.layer_norm(value, value.shape[-1:], gamma, beta, 1e-5)

    first, second = (x + bias).chunk(2, -1)
    return [
        norm(x),
        norm(x + bias + residual), x + bias + residual,
        rms(x, gamma),
        rms(x + residual, gamma), x + residual, first * F.silu(second)
    ]


def core(module, tensors):
    x, residual, gamma, beta, bias = tensors
    out, more, third = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    module.layer_norm(out, x, gamma, beta, 1e-5)
    module.rms_pre_norm(more, third, x, residual, gamma, 1e-5)
    active = x.clone()
    module.bias_activation(active, bias, 1)
    half = x.new_empty(*x.shape[:-1], x.shape[-1] // 2)
    module.gated_activation(half, x, bias, 5)
    return [out, more, third, active, half]


def plain_core(tensors):
    x, residual, gamma, beta, bias = tensors
    y = x + bias
    return [
        F.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5),
        rms(x + residual, gamma), x + residual,
        F.relu(y),
        F.silu(y[..., ::2]) * y[..., 1::2]
    ]


def core_product(module, tensors):
    x, weight, _ = tensors
    out = x.new_empty(x.shape[0], OUTPUTS)
    module.blas_linear(out, x, weight)
    return [out]


ROWS = {"sizes": (1, 3, 17, 501), "dtypes": FLOATS, "looser": 3}
CASES = {
    "DecoderInferenceBuilder": [
        Case("product", product_inputs, product, sizes=(0, 1, 3, 17, 65), dtypes=FLOATS, plain=plain_product, looser=3),
        *(Case(f"int{bits}-product", product_inputs, quantized_product(bits), sizes=(1, 3, 17), dtypes=FLOATS, looser=3)
          for bits in (8, 4)),
        Case("decode", decoder_inputs, decode, sizes=(0, 1, 3, 17, 1003), dtypes=FLOATS, looser=5),
        Case("encode", encoder_inputs, encode, sizes=(0, 1, 17, 131), looser=3, host_only=True)
    ],
    "InferenceBuilder": [Case("rows", rows_inputs, injected, plain=plain_injected, **ROWS)],
    "InferenceCoreBuilder": [
        Case("rows", rows_inputs, core, plain=plain_core, **ROWS),
        Case("product",
             product_inputs,
             core_product,
             sizes=(0, 1, 3, 17, 65),
             dtypes=FLOATS,
             looser=3,
             plain=lambda tensors: [F.linear(tensors[0], tensors[1])])
    ],
}
