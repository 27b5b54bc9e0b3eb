"""Block-sparse attention and Evoformer attention, forward and backward."""

import math

import torch

from ..table import FLOATS, Case

BLOCK = 16


def sparse_inputs(draw, size, dtype):
    """`size` is the number of blocks."""
    shape = (2, 2, size * BLOCK, 24)
    layout = draw.integers(0, 2, 2, size, size)
    if size > 1:
        layout[0, 0] = 0  # rows that attend to nothing
    return [draw.normal(*shape, dtype=dtype) for _ in range(3)] + [layout]


def sparse(module, tensors):
    return [module.sparse_attention(*tensors, BLOCK)]


def plain_sparse(tensors):
    q, k, v, layout = tensors
    there = layout.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2).bool()
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return [scores.masked_fill(~there, -math.inf).softmax(-1).nan_to_num(0) @ v]


def evoformer_inputs(draw, size, dtype):
    """`size` is the number of queries; there is one key more."""
    lead, heads, dim = (2, 2), 2, 24
    return [
        draw.normal(*lead, size, heads, dim, dtype=dtype),
        draw.normal(*lead, size + 1, heads, dim, dtype=dtype),
        draw.normal(*lead, size + 1, heads, dim, dtype=dtype),
        draw.normal(*lead, 1, 1, size + 1, dtype=dtype),
        draw.normal(2, 1, heads, size, size + 1, dtype=dtype)
    ]


def evoformer(module, tensors):
    return [module.evoformer_attention(*tensors)]


def plain_evoformer(tensors):
    q, k, v, first, second = tensors
    scores = torch.einsum("...qhd,...khd->...hqk", q, k) / math.sqrt(q.shape[-1]) + first + second
    return [torch.einsum("...hqk,...khd->...qhd", scores.softmax(-1), v)]


CASES = {
    "SparseAttnBuilder": [
        Case("attention",
             sparse_inputs,
             sparse,
             sizes=(0, 1, 3, 17),
             dtypes=FLOATS,
             grads=(0, 1, 2),
             plain=plain_sparse,
             looser=3,
             fixed=(3, ))
    ],
    "EvoformerAttnBuilder": [
        Case("attention",
             evoformer_inputs,
             evoformer,
             sizes=(0, 1, 3, 17, 263),
             dtypes=FLOATS,
             grads=(0, 1, 2, 3, 4),
             plain=plain_evoformer,
             looser=3)
    ],
}
