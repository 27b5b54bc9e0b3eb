"""One side of the benchmark of sparse attention: milliseconds a call. usage: sparse_attn.py anyaccel|dense|flex"""
import json
import sys
import time

import torch

HEADS, DIM, BLOCK = 8, 64, 64
SIDE = sys.argv[1]


def attention(layout):
    """A function of query, key and value."""
    if SIDE == "dense":
        return torch.nn.functional.scaled_dot_product_attention
    if SIDE == "anyaccel":
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


def milliseconds(call):
    call()
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


def main():
    out = {}
    for length in (2048, 8192):
        torch.manual_seed(0)
        blocks = length // BLOCK
        q, k, v = (torch.randn(1, HEADS, length, DIM) for _ in range(3))
        for density in (10, 25):
            there = torch.rand(HEADS, blocks, blocks).topk(round(blocks * density / 100)).indices
            layout = torch.zeros(HEADS, blocks, blocks, dtype=torch.int64).scatter_(2, there, 1)
            call = attention(layout)
            with torch.no_grad():
                out[f"forward_{length}_{density}_ms"] = milliseconds(lambda: call(q, k, v))
            if SIDE == "flex" or length > 2048:
                continue  # FlexAttention has no backward pass on the processor
            leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
            out[f"both_{length}_{density}_ms"] = milliseconds(
                lambda: torch.autograd.grad(call(*leaves).sum(), leaves))
    print(json.dumps(out))


main()
