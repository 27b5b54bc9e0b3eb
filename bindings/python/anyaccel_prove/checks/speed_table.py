"""The kernels that speed.py times, with the bytes that they move or the FLOP that they perform."""

import dataclasses
from collections.abc import Callable

import torch
from torch.nn import functional as F

from .small_decoder import angles_of, config_of, flat_weights

MILLION = 1 << 20


@dataclasses.dataclass(frozen=True)
class Made:
    """Prepared functions, each of which calls the kernel `calls` times."""

    ours: Callable
    torch: Callable | None = None
    bytes: float = 0.0  # moved by one call
    flops: float = 0.0  # of one call, if it is not limited by memory
    dtype: str = "bfloat16"
    calls: int = 1


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str
    builder: str
    make: Callable[..., Made]


def flag(device):
    return torch.zeros(1, dtype=torch.int32, device=device)


def states(device, count, total):
    out = [torch.randn(total, device=device) for _ in range(2)] + [torch.zeros(total, device=device) for _ in range(count - 2)]
    return out


def adam(module, device, small):
    total = (1 if small else 64) * MILLION
    g, p, m, v = states(device, 4, total)
    parameter = torch.nn.Parameter(p.clone())
    parameter.grad = g
    try:
        theirs = torch.optim.AdamW([parameter], fused=True).step
    except RuntimeError:
        theirs = torch.optim.AdamW([parameter], foreach=True).step
    noop = flag(device)
    return Made(lambda: module.multi_tensor_adam(65536, noop, [[g], [p], [m], [v]], 1e-3, 0.9, 0.999, 1e-8, 1, 1, 1, 0.01),
                theirs,
                bytes=28.0 * total)


def lion(module, device, small):
    total = (1 if small else 64) * MILLION
    g, p, m = states(device, 3, total)
    noop = flag(device)
    return Made(lambda: module.multi_tensor_lion(65536, noop, [[g], [p], [m]], 1e-4, 0.9, 0.99, 1, 0.01), bytes=20.0 * total)


def lamb(module, device, small):
    """The second pass reads p, m and v again and writes p."""
    total = (1 if small else 64) * MILLION
    g, p, m, v = states(device, 4, total)
    none = p.new_empty(0)
    return Made(lambda: module.lamb(p, none, m, v, g, 1e-3, 0.9, 0.999, 10.0, 0.01, 1e-6, 1.0, 1, 1, 1, 0.01), bytes=40.0 * total)


def int8(module, device, small):
    total, groups = (1 if small else 128) * MILLION, 1024
    x = torch.randn(groups, total // groups, device=device, dtype=torch.bfloat16)

    def theirs():
        wide = x.float()
        scale = 127 / wide.abs().amax(1, keepdim=True)
        return (wide * scale).round_().to(torch.int8)

    return Made(lambda: module.quantize(x, groups, 8, 0), theirs, bytes=3.0 * total)


def e4m3(module, device, small):
    total, group = (1 if small else 128) * MILLION, 512
    x = torch.randn(total // group, group, device=device, dtype=torch.bfloat16)
    rows = torch.zeros(total // group, group + 4, dtype=torch.uint8, device=device)

    def theirs():
        wide = x.float()
        return (wide * (448 / wide.abs().amax(1, keepdim=True))).to(torch.float8_e4m3fn)

    return Made(lambda: module.quantize(rows, x, group, False, 8, 3), theirs, bytes=3.0 * total)


def biases(module, device, small):
    rows, channels = (256 if small else 65536), 1280
    x, other = (torch.randn(rows, channels, device=device, dtype=torch.bfloat16) for _ in range(2))
    bias = torch.randn(channels, device=device, dtype=torch.bfloat16)
    return Made(lambda: module.nhwc_bias_add_add(x, bias, other), lambda: x + bias + other, bytes=6.0 * rows * channels)


def gather(module, device, small):
    batch, length, channels = (1, 512, 256) if small else (16, 4096, 1024)
    x = torch.randn(batch, length, channels, device=device, dtype=torch.bfloat16)
    ids = torch.stack([torch.randperm(length)[:length // 2].sort().values for _ in range(batch)])
    ours_ids, theirs_ids = ids.int().to(device), ids[..., None].expand(-1, -1, channels).contiguous().to(device)
    return Made(lambda: module.token_gather(x, ours_ids, True),
                lambda: x.gather(1, theirs_ids),
                bytes=2.0 * batch * length * channels)


def products(bits):
    """One row times matrices that together exceed the cache."""
    def make(module, device, small):
        outputs, inputs = (1024, 1024) if small else (14336, 4096)
        count = max(4, ((64 if small else 512) << 20) // (outputs * inputs * bits // 8))
        x = torch.randn(1, inputs, device=device, dtype=torch.bfloat16)
        weights = [
            torch.randn(outputs, inputs, device=device, dtype=torch.bfloat16) * 0.02
            for _ in range(min(count, 8) if bits != 16 else count)
        ]
        linear, ops = torch.ops.anyaccel.inference_linear, torch.ops.anyaccel
        given = [(each, ) for each in weights
                 ] if bits == 16 else [ops.inference_quantize(weights[i % len(weights)], bits, 128) for i in range(count)]

        def ours():
            for each in given:
                linear(x, *each)

        def theirs():
            for i in range(count):
                F.linear(x, weights[i % len(weights)])

        return Made(ours,
                    theirs,
                    bytes=outputs * inputs * bits / 8 + (0 if bits == 16 else outputs * inputs / 128 * 4),
                    calls=count)

    return make


def decode(module, device, small):
    """A layer with small matrices and a long cache. torch computes only the attention."""
    heads, kv_heads, dim, hidden, length = 32, 8, 128, 64, 1024 if small else 32768

    def drawn(*shape):
        return torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.05

    layer = (drawn(hidden), drawn((heads + 2 * kv_heads) * dim,
                                  hidden), drawn(hidden, heads * dim), drawn(hidden), drawn(2 * hidden,
                                                                                            hidden), drawn(hidden, hidden))
    flat, caches = flat_weights([layer], drawn(hidden), drawn(8, hidden)), [[drawn(1, kv_heads, length, dim)] for _ in range(2)]
    x, logits, config = torch.randn(1, hidden, device=device), torch.empty(1, 8, device=device), config_of(1, heads, kv_heads, dim)
    angles = [each.to(device) for each in angles_of(torch.tensor([length - 1]), dim)]
    query = drawn(1, heads, 1, dim)
    return Made(lambda: torch.ops.anyaccel.inference_decode(x, flat, *caches, angles, [length - 1], [1], config, logits),
                lambda: F.scaled_dot_product_attention(query, caches[0][0], caches[1][0], enable_gqa=True),
                bytes=2.0 * 2 * kv_heads * dim * length)


def layer(module, device, small):
    batch, length, hidden, heads = (1, 64, 128, 4) if small else (16, 512, 1024, 16)

    def drawn(*shape):
        return torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.02

    x, one = drawn(batch, length, hidden), torch.ones(hidden, device=device, dtype=torch.bfloat16)
    weights = [
        drawn(3 * hidden, hidden),
        drawn(3 * hidden),
        drawn(hidden, hidden),
        drawn(hidden), one,
        drawn(hidden),
        drawn(4 * hidden, hidden),
        drawn(4 * hidden),
        drawn(hidden, 4 * hidden),
        drawn(hidden), one,
        drawn(hidden)
    ]

    def theirs():
        qkvw, qkvb, ow, ob, nw, nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b = weights
        q, k, v = F.linear(x, qkvw, qkvb).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        middle = F.layer_norm(x + F.linear(attended, ow, ob), (hidden, ), nw, nb, 1e-12)
        return F.layer_norm(middle + F.linear(F.gelu(F.linear(middle, inter_w, inter_b)), output_w, output_b), (hidden, ), norm_w,
                            norm_b, 1e-12)

    flops = batch * length * 24.0 * hidden**2 + 4.0 * batch * length**2 * hidden
    return Made(lambda: torch.ops.anyaccel.transformer_layer(x, None, *weights, heads), theirs, flops=flops)


def sparse(module, device, small):
    batch, heads, dim, block, length = (1, 2, 64, 16, 128) if small else (4, 16, 64, 64, 4096)
    place = torch.arange(length // block)
    there = ((place[:, None] - place).abs() <= 1) | (place[:, None] == 0) | (place == 0)
    layout, seen = there[None].long().to(device), there.repeat_interleave(block, 0).repeat_interleave(block, 1).to(device)
    q, k, v = (torch.randn(batch, heads, length, dim, device=device, dtype=torch.bfloat16) for _ in range(3))
    return Made(lambda: module.sparse_attention(q, k, v, layout, block),
                lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=seen),
                flops=4.0 * batch * heads * int(there.sum()) * block**2 * dim)


def evoformer(module, device, small):
    lead, length, heads, dim = ((1, 4), 32, 2, 32) if small else ((1, 128), 256, 8, 32)

    def drawn(*shape):
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    q, k, v = (drawn(*lead, length, heads, dim) for _ in range(3))
    first, second = drawn(*lead, 1, 1, length), drawn(lead[0], 1, heads, length, length)

    def theirs():
        parts = [each.transpose(-2, -3) for each in (q, k, v)]
        return F.scaled_dot_product_attention(*parts, attn_mask=first + second).transpose(-2, -3)

    return Made(lambda: module.evoformer_attention(q, k, v, first, second),
                theirs,
                flops=4.0 * lead[0] * lead[1] * heads * length**2 * dim)


KERNELS = [
    Kernel("adamw step, float32", "FusedAdamBuilder", adam),
    Kernel("lion step, float32", "FusedLionBuilder", lion),
    Kernel("lamb step, float32", "FusedLambBuilder", lamb),
    Kernel("quantize int8, bfloat16", "QuantizerBuilder", int8),
    Kernel("quantize e4m3, bfloat16", "FPQuantizerBuilder", e4m3),
    Kernel("bias add add, bfloat16", "SpatialInferenceBuilder", biases),
    Kernel("token gather, bfloat16", "RandomLTDBuilder", gather),
    Kernel("1 row x bfloat16 matrix", "DecoderInferenceBuilder", products(16)),
    Kernel("1 row x int8 matrix", "DecoderInferenceBuilder", products(8)),
    Kernel("1 row x int4 matrix", "DecoderInferenceBuilder", products(4)),
    Kernel("decoding step with a long cache", "DecoderInferenceBuilder", decode),
    Kernel("transformer layer, forward", "TransformerBuilder", layer),
    Kernel("sparse attention, forward", "SparseAttnBuilder", sparse),
    Kernel("evoformer attention, forward", "EvoformerAttnBuilder", evoformer),
]
