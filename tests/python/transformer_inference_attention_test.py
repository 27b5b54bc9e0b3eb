"""Attention of DeepSpeed's injected inference layers, and its workspace, compared with references
in float64. DS_ACCELERATOR selects the accelerator.
"""

import math

import pytest
import torch

from transformer_inference_case import DEVICE, DTYPES, NONE, context, m, made, near, of, seeds  # noqa: F401


def plain_bias(batch, heads, queries, keys, mask=None, alibi=None, triangular=False, window=None):
    bias = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    if alibi is not None:
        bias += alibi.view(batch, heads, 1, alibi.shape[-1])[..., :keys]
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
        mask = mask[:, None, None] if mask.dim() == 2 else mask
        bias += mask[..., :keys]
    for i in range(queries):
        place = keys - queries + i
        for j in range(keys):
            if (triangular and j > place) or (window and j <= place - window):
                bias[:, :, i, j] = -math.inf
    return bias


def plain_softmax(scores, bias):
    return torch.softmax(scores + bias, -1).nan_to_num(0)


def some_mask(kind, batch, queries, keys, dtype):
    if kind == "none":
        return None
    if kind == "rows":
        return made(batch, keys, dtype=dtype)[0]
    if kind == "hidden":
        return torch.full((batch, 1, queries, keys), -math.inf, dtype=torch.float64)
    seen = torch.rand(batch, 1, queries, keys) < 0.7
    return seen if kind == "bool" else torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -10000 if kind == "added" else -math.inf)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["none", "rows", "bool", "added", "infinite", "hidden"])
def test_softmax(dtype, kind):
    """Fails if a mask or alibi is added to the wrong row or head, or a window is one key too wide.
    The result for a fully masked query must be zero.
    """
    for case, (batch, heads, queries, keys) in enumerate(((2, 3, 5, 5), (1, 2, 1, 9), (2, 4, 3, 7), (0, 2, 4, 4), (2, 1, 33, 33))):
        scores, given = made(batch, heads, queries, keys, dtype=dtype, gaps=case % 2 == 0)
        mask = some_mask(kind, batch, queries, keys, dtype)
        triangular, window, ranks = case % 2 == 0, (3 if case == 2 else None), 2
        all_alibi = torch.randn(batch * heads * ranks, 1, keys).to(dtype)
        alibi = all_alibi.double().view(batch, ranks * heads, keys)[:, heads:].reshape(batch * heads, keys) if case != 1 else None
        want = plain_softmax(scores * 0.5, plain_bias(batch, heads, queries, keys, mask, alibi, triangular, window))
        given_mask = NONE if mask is None else (mask if mask.dtype == torch.bool else mask.to(dtype)).to(DEVICE)
        got = of("softmax", dtype)(given, given_mask, all_alibi.to(DEVICE) if alibi is not None else NONE, triangular, False, window is not None,
                                   window or 1, False, 0.5, heads, ranks)
        near(got, want, dtype)
        if kind == "hidden":
            assert not got.cpu().any()


def rotate(x, first, dims, half, theta):
    """Return x[batch, tokens, heads, dim] after rotation."""
    out = x.clone()
    for t in range(x.shape[1]):
        for i in range(dims // 2):
            angle = (first + t) * theta ** (-2 * i / dims)
            a, b = (i, i + dims // 2) if half else (2 * i, 2 * i + 1)
            out[:, t, :, a] = x[:, t, :, a] * math.cos(angle) - x[:, t, :, b] * math.sin(angle)
            out[:, t, :, b] = x[:, t, :, b] * math.cos(angle) + x[:, t, :, a] * math.sin(angle)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("half", [True, False])
def test_rotation(dtype, half):
    """Fails if the wrong channels are paired, or a token is rotated for the wrong position."""
    for dims, offset in ((8, 0), (4, 3), (0, 2)):
        (q, gq), (k, gk) = made(2, 5, 24, dtype=dtype, gaps=True), made(2, 5, 24, dtype=dtype)
        got = m.apply_rotary_pos_emb(gq, gk, dims, offset, 3, half, 100.0)
        for out, x in zip(got, (q, k)):
            near(out, rotate(x.view(2, 5, 3, 8), offset, dims, half, 100.0).flatten(2), dtype)


CONTEXTS = {
    "plain": {}, "shared keys": {"kv": 2}, "one key": {"kv": 1}, "halves": {"rotary": (8, True, False)}, "neighbours": {"rotary": (4, False, True)},
    "window": {"window": 3}, "alibi": {"alibi": True}, "padded": {"mask": "padded"}, "bool": {"mask": "bool"},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", CONTEXTS)
def test_prompt_and_continuation(dtype, what):
    """Fails if a key is stored at the wrong position or in another layer's cache, or a new prompt
    attends to the previous one.
    """
    options = dict(CONTEXTS[what])
    heads, kv, dim, batch, window, kind = 4, options.get("kv", 4), 8, 2, options.get("window"), options.get("mask")
    dims, half, every = options.get("rotary", (0, False, False))
    of("allocate_workspace", dtype)(heads * dim, heads, 7, batch, 2, 1, False, 0, 16, 1)
    width = (heads + 2 * kv) * dim
    for tokens in (7, 4):
        pasts = [None, None]
        for step in range(4):
            new = tokens if step == 0 else 1
            for layer in (0, 1):
                x, given = made(batch, new, width, dtype=dtype, gaps=step == 0)
                parts = x.view(batch, new, heads + 2 * kv, dim)
                first = 0 if step == 0 else tokens + step - 1
                turned = rotate(parts[:, :, :heads + kv], first, dims, half, 100.0).to(dtype).double()
                q, k, v = turned[:, :, :heads], turned[:, :, heads:], parts[:, :, heads + kv:]
                if step:
                    k, v = torch.cat([pasts[layer][0], k], 1), torch.cat([pasts[layer][1], v], 1)
                pasts[layer] = k, v
                keys = first + new
                mask = None
                if kind:
                    seen = torch.ones(batch, 1, 1 if step else new, keys, dtype=torch.bool)
                    seen[0, ..., :3] = False
                    mask = seen if kind == "bool" else torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, torch.finfo(dtype).min)
                alibi = torch.randn(batch * heads, 1, keys).to(dtype) if options.get("alibi") else None
                bias = plain_bias(batch, heads, new, keys, mask, alibi.double().flatten(1) if alibi is not None else None, True, window)
                wide = [t.repeat_interleave(heads // kv, 2).transpose(1, 2) for t in (k, v)]
                scores = q.transpose(1, 2) @ wide[0].transpose(-1, -2) * dim ** -0.5
                want = (plain_softmax(scores, bias) @ wide[1]).transpose(1, 2).flatten(2)
                out, keys_so_far, values_so_far = context(given, dtype, mask if mask is None else (mask if kind == "bool" else mask.to(dtype)).to(DEVICE), heads, kv,
                                                          (dims, half, every), True, window, layer, 2, alibi.to(DEVICE) if alibi is not None else None)
                if kind:  # the results for padding are undefined
                    out, want = out[:, 3 if step == 0 else 0:], want[:, 3 if step == 0 else 0:]
                near(out, want, dtype, 2)
                near(keys_so_far, k.transpose(1, 2), dtype)
                assert torch.equal(values_so_far.cpu().double(), v.transpose(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_encoders_and_full_masks(dtype):
    """Fails if an encoder's single token counts as a continuation. The result for a fully masked
    row must be zero.
    """
    of("allocate_workspace", dtype)(32, 4, 5, 2, 1)
    for tokens in (5, 1, 1):
        x, given = made(2, tokens, 96, dtype=dtype)
        q, k, v = (t.view(2, tokens, 4, 8).transpose(1, 2) for t in x.chunk(3, -1))
        want = (torch.softmax(q @ k.transpose(-1, -2) * 8 ** -0.5, -1) @ v).transpose(1, 2).flatten(2)
        near(context(given, dtype, triangular=False, layers=1)[0], want, dtype, 2)
    hidden = torch.full((2, 1, 1, 1), -math.inf, dtype=dtype, device=DEVICE)
    assert not context(given, dtype, hidden, triangular=False, layers=1)[0].cpu().any()
    assert context(given[:0], dtype, triangular=False, layers=1)[0].shape == (0, 1, 32)


def test_workspace():
    """Fails if a larger batch overflows the workspace of a smaller one, or a released workspace is
    read.
    """
    m.allocate_workspace_fp32(32, 4, 5, 1, 1, 1, False, 0, 6, 1)
    given = torch.randn(3, 5, 96).to(DEVICE)
    assert context(given, torch.float32, layers=1)[1].shape == (3, 4, 5, 8)
    word = given[:, :1]
    assert context(word, torch.float32, layers=1)[1].shape == (3, 4, 6, 8)
    with pytest.raises((ValueError, RuntimeError), match="pass a larger max_out_tokens to init_inference"):
        context(word, torch.float32, layers=1)
    m.reset_cache()
    alone = context(word, torch.float32, layers=1)[0]
    torch.testing.assert_close(alone.cpu(), word[..., 64:].cpu())
    m.release_workspace()
    assert m.retake_workspace() is True
    with pytest.raises((ValueError, RuntimeError), match="are not in the workspace"):
        context(word, torch.float32, layers=1)
    with pytest.raises((ValueError, RuntimeError), match="the layer index is out of range"):
        context(given, torch.float32, layer=1, layers=1)
    context(given[:1, :0], torch.float32, layer=0, layers=2)
    with pytest.raises((ValueError, RuntimeError), match="contains no prompt"):
        context(word[:1], torch.float32, layer=0, layers=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeat_kv_cache(dtype):
    """Fails if repeating the cache overwrites an entry before it is copied."""
    of("allocate_workspace", dtype)(32, 4, 5, 6, 2, 1, False, 0, 16, 1)
    given = [torch.randn(2, 5, 96).to(dtype).to(DEVICE) for _ in range(2)]
    kept = [context(x, dtype, layer=i)[1:] for i, x in enumerate(given)]
    kept = [t.cpu().clone() for pair in kept for t in pair]
    got = of("repeat_kv_cache", dtype)(2, 3)
    assert len(got) == 4
    for out, want in zip(got, kept):
        assert torch.equal(out.cpu(), want.repeat_interleave(3, 0))
    with pytest.raises((ValueError, RuntimeError), match="does not match the workspace's batch size"):
        of("repeat_kv_cache", dtype)(4, 3)
