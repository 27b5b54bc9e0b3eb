"""Runs one implementation of the sparse-attention benchmark and prints milliseconds per call.

usage: sparse_attn.py anyaccel|dense|flex|check

`check` compares the implementations' results with each other instead. It prints nothing and fails
if they differ.
"""
import json
import shutil
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, DIM, BLOCK = 8, 64, 64
CALLS = {2048: (12, 5), 4096: (4, 2), 8192: (2, 1)}  # length: number of (forward, forward and backward) calls; the fastest call is reported
DENSITIES = (10, 25)


def layout_of(length, density):
    """Return a random layout with the same number of blocks in each row and different blocks for
    each head.
    """
    torch.manual_seed(0)
    blocks = length // BLOCK
    there = torch.rand(HEADS, blocks, blocks).topk(round(blocks * density / 100)).indices
    return torch.zeros(HEADS, blocks, blocks, dtype=torch.int64).scatter_(2, there, 1)


def inputs_of(length, heads=HEADS):
    torch.manual_seed(1)
    return [torch.randn(1, heads, length, DIM) for _ in range(3)]


def attention(side, layout):
    """Return the implementation's attention as a function of query, key and value."""
    if side == "dense":
        return scaled_dot_product_attention
    if side == "anyaccel":
        import anyaccel
        sparse = anyaccel.get_accelerator().create_op_builder("SparseAttnBuilder").load()
        return lambda q, k, v: sparse.sparse_attention(q, k, v, layout, BLOCK)
    from torch.nn.attention.flex_attention import BlockMask, flex_attention
    there = layout.bool()
    counts = there.sum(-1).int()[None]
    places = torch.argsort((~there).int(), dim=-1, stable=True).int()[None]
    mask = BlockMask.from_kv_blocks(counts, places, BLOCK_SIZE=BLOCK)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def gradients(call, inputs):
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return torch.autograd.grad(call(*leaves).sum(), leaves)


def milliseconds(function, calls):
    best = float("inf")
    for _ in range(calls):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


def time_cell(out, name, call, inputs, calls, backward):
    with torch.no_grad():
        call(*inputs)  # compiles and allocates memory
        out[f"forward_{name}_ms"] = milliseconds(lambda: call(*inputs), calls[0])
    if backward:
        out[f"both_{name}_ms"] = milliseconds(lambda: gradients(call, inputs), calls[1])


def measure(side):
    out = {}
    for length, calls in CALLS.items():
        inputs = inputs_of(length)
        if side == "dense":
            time_cell(out, length, attention(side, None), inputs, calls, True)
            continue
        for density in DENSITIES:
            call = attention(side, layout_of(length, density))
            # FlexAttention has no backward pass on the CPU.
            time_cell(out, f"{length}_{density}", call, inputs, calls, side == "anyaccel")
    if side == "anyaccel":
        inputs = inputs_of(4096, 1)
        call = attention(side, layout_of(4096, 25)[:1])
        for threads in (1, 2):
            torch.set_num_threads(threads)
            out[f"one_head_{threads}_ms"] = milliseconds(lambda: gradients(call, inputs), 5)
    print(json.dumps(out))


def check():
    """Compare outputs, and AnyAccel's gradients, with dense attention that uses the layout as its
    mask.
    """
    length = min(CALLS)
    inputs = inputs_of(length)
    for density in DENSITIES:
        layout = layout_of(length, density)
        mask = layout.bool().repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
        masked = lambda q, k, v: scaled_dot_product_attention(q, k, v, mask[None])  # noqa: B023, E731
        want = masked(*inputs)
        for side in ["anyaccel"] + ["flex"] * bool(shutil.which("c++")):
            call = attention(side, layout)
            with torch.no_grad():
                torch.testing.assert_close(call(*inputs), want, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(gradients(attention("anyaccel", layout), inputs), gradients(masked, inputs), rtol=1e-3,
                                   atol=1e-4)


if sys.argv[1] == "check":
    check()
else:
    measure(sys.argv[1])
