"""Times attention with the biases of an Evoformer block. AnyAccel and torch alternate in one
process. Prints milliseconds per call.

usage: evoformer.py SECONDS [fp32|bf16] [SHAPES]

SHAPES are entries x length x heads x head dim, for example 128x256x8x32,32x512x4x32 (default: all).
`sdpa` is torch's scaled_dot_product_attention with the sum of the biases as its mask. Each call
computes that sum, because each block of a model has new biases. `both` is forward and backward,
with gradients of q, k, v and both biases.
"""
import json
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

import anyaccel
from by_turns import wanted

SECONDS = float(sys.argv[1])
DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[2] if len(sys.argv) > 2 else "fp32"]
SHAPES = [tuple(map(int, shape.split("x"))) for shape in
          (sys.argv[3] if len(sys.argv) > 3 else "64x128x8x32,128x256x8x32,32x512x4x32").split(",")]


def sdpa(q, k, v, bias1, bias2):
    q, k, v = (x[0].transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, (bias1 + bias2)[0]).transpose(1, 2)[None]


def inputs_of(entries, length, heads, dim):
    """Return inputs with batch size 1. A fifth of the keys are masked, in the same way as in
    AlphaFold.
    """
    torch.manual_seed(0)
    made = [torch.randn(1, entries, length, heads, dim).to(DTYPE) for _ in range(3)]
    mask = 1e9 * ((torch.rand(1, entries, 1, 1, length) > 0.2).float() - 1)
    return [*made, mask.to(DTYPE), torch.randn(1, 1, heads, length, length).to(DTYPE)]


def compare(sides, inputs, grad):
    """Raise AssertionError if the implementations' results or gradients differ."""
    outs, grads = [], []
    for call in sides.values():
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = call(*leaves)
        outs.append(out.detach())
        grads.append(torch.autograd.grad(out, leaves, grad))
    error = 1e-3 if DTYPE == torch.float32 else 0.1
    torch.testing.assert_close(outs[0], outs[1], rtol=error, atol=error)
    for mine, theirs in zip(*grads):
        torch.testing.assert_close(mine, theirs, rtol=error, atol=error * (1 + theirs.abs().max().item()))


def main():
    out = {}
    evoformer = anyaccel.get_accelerator().create_op_builder("EvoformerAttnBuilder").load()
    sides = {"anyaccel": evoformer.evoformer_attention, "sdpa": sdpa}
    small = inputs_of(4, 70, 2, 24)
    compare(sides, small, torch.randn(small[0].shape).to(DTYPE))
    sides = wanted(sides)
    for shape in SHAPES:
        inputs = inputs_of(*shape)
        grad = torch.randn(inputs[0].shape).to(DTYPE)
        leaves = [x.detach().requires_grad_() for x in inputs]

        def forward(call, inputs=inputs):
            with torch.no_grad():
                call(*inputs)

        def both(call, leaves=leaves, grad=grad):
            torch.autograd.grad(call(*leaves), leaves, grad)

        for kind, step in (("forward", forward), ("both", both)):
            best = dict.fromkeys(sides, float("inf"))
            for call in sides.values():
                step(call)
            end, turns = time.perf_counter() + SECONDS, 0
            while turns < 2 or time.perf_counter() < end:
                turns += 1
                for name, call in sides.items():
                    begin = time.perf_counter()
                    step(call)
                    best[name] = min(best[name], time.perf_counter() - begin)
            key = f"{kind}_{'x'.join(map(str, shape))}"
            out |= {f"{name}_{key}_ms": 1e3 * value for name, value in best.items()}
            print(key, {name: round(1e3 * value, 2) for name, value in best.items()}, turns, file=sys.stderr)
    print(json.dumps(out))


main()
