"""Times matrix products with few rows, and a decoding step of one layer with a long KV cache, on a
GPU with AnyAccel and with torch.

usage: inference_cuda.py [needs|small]

Prints one JSON object with times in microseconds. `needs` exits with 0 if such a device exists.
`small` uses sizes that are small enough for any device. The products
cycle through matrices that together exceed the L2 cache, so that each is read from memory as in a
model.
"""
import json
import sys

import torch

from anyaccel.ops.decoder import DecoderConfig, DecoderLayerConfig
from on_device import seconds, with_builders

SMALL = sys.argv[1:] == ["small"]
SHAPES = {"256x512": (256, 512)} if SMALL else {"4096x4096": (4096, 4096), "14336x4096": (14336, 4096), "4096x14336": (4096, 14336)}
LENGTHS = (64,) if SMALL else (512, 4096, 32768)
ROWS = (1, 4, 16)
GROUP = 128
BYTES = 1 << 20 if SMALL else 256 << 20


def microseconds(calls, synchronize):
    return seconds(calls, synchronize) * 1e6


def products(device, synchronize):
    ops = torch.ops.anyaccel
    out = {}
    for name, (outputs, inputs) in SHAPES.items():
        count = max(4, BYTES // (outputs * inputs))
        weights = [torch.randn(outputs, inputs, device=device, dtype=torch.bfloat16) / inputs**0.5 for _ in range(count)]
        made = {bits: [ops.inference_quantize(weight, bits, GROUP) for weight in weights] for bits in (8, 4)}
        packed = []
        for codes, scales in made[4] if device.type == "cuda" else ():
            wide = ops.inference_dequantize(codes, scales, None, 0, outputs, torch.float32)
            levels = (wide.view(outputs, -1, GROUP) / scales[..., None]).round().int().view(outputs, inputs) + 8
            nibbles = (levels[:, ::2] << 4 | levels[:, 1::2]).to(torch.uint8)
            pairs = torch.stack([scales, torch.zeros_like(scales)], -1).transpose(0, 1).to(torch.bfloat16).contiguous()
            packed.append((torch.ops.aten._convert_weight_to_int4pack(nibbles, 8), pairs))
        for rows in ROWS:
            x = torch.randn(rows, inputs, device=device, dtype=torch.bfloat16)
            sides = {"ours_bf16": [lambda w=w: ops.inference_linear(x, w) for w in weights],
                     "ours_int8": [lambda w=w: ops.inference_linear(x, *w) for w in made[8]],
                     "ours_int4": [lambda w=w: ops.inference_linear(x, *w) for w in made[4]],
                     "torch_bf16": [lambda w=w: torch.nn.functional.linear(x, w) for w in weights],
                     "torch_int4": [lambda w=w: torch.ops.aten._weight_int4pack_mm(x, w[0], GROUP, w[1]) for w in packed]}
            if packed:
                ours, theirs = ops.inference_linear(x, *made[4][0]), sides["torch_int4"][0]()
                assert (ours - theirs).abs().max() <= 0.05 * ours.abs().max(), "torch's int4 product differs from ours"
            for side, calls in sides.items():
                if calls:
                    out[f"{side}_{name}_{rows}_us"] = microseconds(calls, synchronize)
    return out


def attention(device, synchronize):
    """Time a decoder layer in AnyAccel, and only its attention in torch.

    The layer's matrices are small, so that attention dominates its time.
    """
    heads, kv_heads, dim, hidden, out = 32, 8, 128, 64, {}
    def drawn(*shape):
        return torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.05
    flat = [drawn(hidden), None, drawn((heads + 2 * kv_heads) * dim, hidden), *[None] * 11, *[None] * 4, drawn(hidden, heads * dim), None, None, None,
            None, None, drawn(hidden), None, drawn(64, hidden), *[None] * 7, drawn(hidden, 32), *[None] * 3, None, None, None, None, None,
            drawn(hidden), None, drawn(8, hidden), None, None, None]
    for length in LENGTHS:
        caches = [[drawn(1, kv_heads, length, dim)] for _ in range(2)]
        config = DecoderConfig(heads, kv_heads, dim, gated=True, final_norm=True, layers=[DecoderLayerConfig(dim**-0.5)]).pack()
        x, logits = torch.randn(1, hidden, device=device), torch.empty(1, 8, device=device)

        def ours():
            torch.ops.anyaccel.inference_decode(x, flat, *caches, [], [length - 1], [1], config, logits)
        query = drawn(1, heads, 1, dim)

        def torchs():
            torch.nn.functional.scaled_dot_product_attention(query, caches[0][0], caches[1][0], enable_gqa=True)
        out[f"ours_layer_{length}_us"] = microseconds([ours] * 50, synchronize)
        out[f"torch_attention_{length}_us"] = microseconds([torchs] * 50, synchronize)
    return out


def main():
    accelerator, device = with_builders("DecoderInferenceBuilder")
    numbers = {**products(device, accelerator.synchronize), **attention(device, accelerator.synchronize)}
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
