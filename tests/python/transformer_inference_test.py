"""The functions that DeepSpeed's injected inference layers call, against the same written out in float64, on the accelerator that DS_ACCELERATOR names."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
m = accelerator.create_op_builder("InferenceBuilder").load()
ops = torch.ops.anyaccel
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the same code")
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
DTYPES = list(NAMES)
# A result is rounded once, and sums of halves' products are torch's, which may round between.
ERRORS = {torch.float32: 3e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
NONE = torch.empty(1)


@pytest.fixture(autouse=True)
def seeds():
    random.seed(5)
    torch.manual_seed(5)
    yield
    m.release_workspace()
    m.reset_cache()


def of(name, dtype):
    return getattr(m, f"{name}_{NAMES[dtype]}")


def near(got, want, dtype, factor=1.0):
    assert got.dtype == dtype and got.shape == want.shape, (got.dtype, got.shape, want.shape)
    if want.numel():
        worst = ((got.cpu().double() - want).abs().max() / want.abs().max().clamp(min=1)).item()
        assert worst <= ERRORS[dtype] * factor, worst


def made(*sizes, dtype=torch.float32, scale=1.0, gaps=False):
    """The numbers in float64, and as they are given: with gaps in memory where asked."""
    given = (torch.randn(*sizes) * scale).to(dtype)
    wide = given.double()
    if gaps and len(sizes) > 1:
        given = given.transpose(-1, -2).contiguous().transpose(-1, -2)
    return wide, given.to(DEVICE)


def shapes():
    return [(0, 3, 8), (2, 0, 8), (1, 1, 8), (2, 5, 24), (3, 7, 130)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("gaps", [False, True])
def test_norms(dtype, shape, gaps):
    """Breaks when a norm is over another dimension, a sum misses a part, or is rounded before it is normalized."""
    (x, gx), (r, gr) = made(*shape, dtype=dtype, gaps=gaps), made(*shape, dtype=dtype, gaps=gaps)
    (b, gb), (g, gg), (z, gz) = (made(shape[-1], dtype=dtype) for _ in range(3))
    norm = lambda t: F.layer_norm(t, shape[-1:], g, z, 1e-5)  # noqa: E731
    rms = lambda t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * g  # noqa: E731
    near(m.layer_norm(gx, gg, gz, 1e-5), norm(x), dtype)
    near(m._layer_norm_residual(gx, gb, gr, gg, gz, 1e-5), norm(x + b + r), dtype)
    out, total = m.layer_norm_residual_store_pre_ln_res(gx, gb, gr, gg, gz, 1e-5)
    near(out, norm(x + b + r), dtype)
    near(total, x + b + r, dtype)
    near(m.rms_norm(gx, gg, 1e-5), rms(x), dtype)
    out, total = m.pre_rms_norm(gx, gr, gg, 1e-5)
    near(out, rms(x + r), dtype)
    near(total, x + r, dtype)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {1: gelu_tanh, 2: F.relu, 3: lambda x: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1]), 4: lambda x: x.chunk(2, -1)[0] * F.silu(x.chunk(2, -1)[1])}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
def test_elements(dtype, shape):
    """Breaks when a bias goes to another channel, the gate is the other half, or gelu is the other one."""
    (x, gx), (y, gy) = made(*shape, dtype=dtype, gaps=True), made(*shape, dtype=dtype)
    b, gb = made(shape[-1], dtype=dtype)
    near(of("bias_gelu", dtype)(gx, gb), gelu_tanh(x + b), dtype)
    near(of("bias_relu", dtype)(gx, gb), F.relu(x + b), dtype)
    near(of("bias_add", dtype)(gx, gb), x + b, dtype)
    near(of("bias_residual", dtype)(gx, gy, gb), x + y + b, dtype)
    near(of("bias_residual", dtype)(gx, gy, NONE), x + y, dtype)
    for kind in (3, 4):
        near(m.gated_activation(gx, gb, kind), ACTIVATIONS[kind](x + b), dtype)
    kept = gy.clone()
    assert m._vector_add(kept, gx, 0.5) is kept
    near(kept, 0.5 * y + x, dtype)
    (c, gc), (t, gt) = made(1, 1, 2 * shape[-1], dtype=dtype), made(*shape[:2], 2, dtype=dtype)
    for wide, given in ((c.view(2, -1), gc), (None, gt)):
        if given.numel() == 2 * shape[-1] and wide is None:
            continue
        first, second = wide if wide is not None else (t[..., :1], t[..., 1:])
        kept = gy.clone()
        assert m.moe_res_matmul(gx, given, kept) is kept
        near(kept, x * first + y * second, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("biases", [True, False])
def test_the_end_of_a_layer(dtype, ranks, biases):
    """Breaks when a part is divided among ranks that is each rank's own, or the other way round."""
    (h, gh), (r, gr), (a, ga) = (made(2, 5, 24, dtype=dtype) for _ in range(3))
    (ab, gab), (fb, gfb) = (made(24, dtype=dtype) for _ in range(2))
    if not biases:
        ab, fb, gab, gfb = 0, 0, None, None
    for after, add, before, want in ((True, True, True, (r + a + fb + ab) / ranks + h), (True, True, False, r + h + fb),
                                     (False, True, True, (r + ab + fb) / ranks + h + a), (False, False, True, (r + fb) / ranks + h + a)):
        kept = gr.clone()
        assert of("residual_add_bias", dtype)(gh, kept, ga, gab, gfb, ranks, after, add, before) is kept
        near(kept, want, dtype)


def weights(inputs, outputs, dtype, transposed):
    w, given = made(inputs, outputs, dtype=dtype, scale=inputs ** -0.5)
    return w, given.t().contiguous() if transposed else given


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("transposed", [False, True])
def test_products(dtype, shape, transposed):
    """Breaks when a matrix is read turned, a bias is added twice or never, or what is returned beside a product is not the norm."""
    hidden, inner = shape[-1], 2 * shape[-1] + 6
    (x, gx), (r, gr) = made(*shape, dtype=dtype, gaps=True), made(*shape, dtype=dtype)
    (g, gg), (z, gz), (ib, gib) = (made(hidden, dtype=dtype) for _ in range(3))
    (b, gb), (w, gw), (v, gv) = made(inner, dtype=dtype), weights(hidden, inner, dtype, transposed), weights(inner, hidden, dtype, transposed)
    norm = lambda t: F.layer_norm(t, (hidden,), g, z, 1e-5)  # noqa: E731
    rms = lambda t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * g  # noqa: E731
    near(of("vector_matmul", dtype)(gx, gw, False, NONE, False, transposed), x @ w, dtype, 2)
    near(of("linear_layer", dtype)(gx, gw, gb, True, False, 2, transposed, 1e4), x @ w + b, dtype, 2)
    near(of("linear_layer", dtype)(gx, gw, gb, False, False, 2, transposed, 1e4), x @ w, dtype, 2)
    out, kept = of("qkv_gemm", dtype)(gx, gw, NONE, gb, gg, gz, 1e-5, True, False, transposed)
    near(out, norm(x) @ w + b, dtype, 3)
    near(kept, norm(x), dtype)
    out, kept = of("rms_qkv_gemm", dtype)(gx, gw, NONE, gg, 1e-5, False, transposed)
    near(out, rms(x) @ w, dtype, 3)
    near(kept, rms(x), dtype)
    near(of("fused_gemm_gelu", dtype)(gx, gw, NONE, gb, gv, NONE, False, transposed), gelu_tanh(x @ w + b) @ v, dtype, 3)
    for kind in (1, 2):
        for after in (True, False):
            out, kept = of("mlp_gemm", dtype)(gx, gr, gib, gw, gv, gb, gg, gz, 1e-5, True, after, NONE, NONE, False, kind, transposed)
            start = norm(x + r + ib) if after else norm(r)
            near(kept, start, dtype)
            near(out, ACTIVATIONS[kind](start @ w + b) @ v, dtype, 4)
    before = gr.clone()
    for kind in (1, 4):
        u, gu = weights(inner // 2, hidden, dtype, transposed) if kind == 4 else (v, gv)
        out, total = of("rms_mlp_gemm", dtype)(gx, gr, gw, gu, gg, 1e-5, NONE, NONE, False, kind, transposed)
        near(total, x + r, dtype)
        near(out, ACTIVATIONS[kind](rms(x + r) @ w) @ u, dtype, 4)
    assert torch.equal(gr, before)  # DeepSpeed's Python adds to it afterwards


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("inputs, outputs", [(300, 257), (9000, 33), (64, 2048), (130, 515)])
def test_products_of_few_rows(dtype, transposed, inputs, outputs):
    """Breaks when a part of the inputs or of the outputs is left out, or a row's bits depend on the rows beside it or on threads."""
    w, gw = weights(inputs, outputs, dtype, transposed)
    x, gx = made(16, inputs, dtype=dtype)
    for rows in (1, 2, 4, 5, 16):
        got = of("vector_matmul", dtype)(gx[:rows], gw, False, NONE, False, transposed)
        near(got, x[:rows] @ w, dtype)
    for rows in (1, 4):
        together = ops.transformer_inference_few_rows(gx[:rows], gw, transposed)
        near(together, x[:rows] @ w, dtype)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for row in range(rows):
                assert torch.equal(ops.transformer_inference_few_rows(gx[row:row + 1], gw, transposed)[0], together[row])
    assert ops.transformer_inference_few_rows(gx[:0], gw, transposed).shape == (0, outputs)
    with torch.enable_grad():
        leaf = gx[:1].clone().requires_grad_()
        of("vector_matmul", dtype)(leaf, gw, False, NONE, False, transposed).sum().backward()
        near(leaf.grad, w.sum(1)[None], dtype, 8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers(dtype):
    """Breaks when a group's scale goes to other rows, or int8 weights are read as [inputs, outputs]."""
    for outputs, inputs, groups in ((12, 7, 3), (8, 16, 8), (4, 5, 1), (0, 4, 1)):
        codes = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8)
        scales = torch.rand(groups, 1) * 0.02
        want = codes.double() * scales.double().repeat_interleave(outputs // groups, 0)
        near(of("dequantize", dtype)(codes.to(DEVICE), scales.to(DEVICE), groups), want, dtype)
        x, gx = made(2, 3, inputs, dtype=dtype)
        rounded = want.to(dtype).double()
        near(of("vector_matmul", dtype)(gx, codes.to(DEVICE), False, scales.to(DEVICE), True, False), x @ rounded.t(), dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_experts_and_padding(dtype):
    """Breaks when tokens go to another expert or place, or padding is not zeros behind."""
    (q, gq), (w, gw) = made(9, 3, 4, dtype=dtype, gaps=True), made(9, 10, dtype=dtype)
    near(of("einsum_sec_sm_ecm", dtype)(gq, gw), torch.einsum("sec,sm->ecm", q, w), dtype, 2)
    for dim, wide in ((8, 32), (32, 64), (40, 64), (64, 128), (130, 130)):
        (a, ga), (k, gk), (v, gv) = made(2, 3, 5, dim, dtype=dtype), made(2, 3, 7, dim, dtype=dtype), made(2, 3, 7, dim, dtype=dtype)
        got = of("add_padding", dtype)(ga, gk, gv)
        for out, want, tokens in zip(got, (a, k, v), (5, 128, 128)):
            assert torch.equal(out.cpu().double(), F.pad(want, (0, wide - dim, 0, tokens - want.shape[2])))
        flat = [t.transpose(1, 2).flatten(2) for t in (ga, gk, gv)]
        for padded in (False, True):
            got = of("pad_transform", dtype)(*flat, 3, padded)
            for out, want, tokens in zip(got, (a, k, v), (5, 128, 128)):
                assert torch.equal(out.cpu().double(), F.pad(want, (0, wide - dim, 0, tokens - want.shape[2])) if padded else want)
    x, gx = made(2, 5, 24, dtype=dtype)
    (w, gw), (b, gb) = weights(24, 72, dtype, False), made(72, dtype=dtype)
    out = of("linear_layer", dtype)(gx, gw, gb, True, True, 3, False, 1e4)
    near(out, F.pad((x @ w + b).view(2, 5, 3, 3, 8).permute(2, 0, 3, 1, 4), (0, 24)), dtype, 2)


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
    """Breaks when a mask or alibi goes to another row or head, a window is one too wide, or a query that sees nothing gives no zeros."""
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
    """x[batch, tokens, heads, dim]"""
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
    """Breaks when partners are others, or a token is turned as another one."""
    for dims, offset in ((8, 0), (4, 3), (0, 2)):
        (q, gq), (k, gk) = made(2, 5, 24, dtype=dtype, gaps=True), made(2, 5, 24, dtype=dtype)
        got = m.apply_rotary_pos_emb(gq, gk, dims, offset, 3, half, 100.0)
        for out, x in zip(got, (q, k)):
            near(out, rotate(x.view(2, 5, 3, 8), offset, dims, half, 100.0).flatten(2), dtype)


def context(given, dtype, mask=None, heads=4, kv=4, rotary=(0, False, False), triangular=True, window=None, layer=0, layers=2, alibi=None):
    return of("softmax_context", dtype)(given, NONE if mask is None else mask, *rotary, heads, kv if kv != heads else -1, given_norm(given, heads, kv), triangular,
                                        window is not None, window or 1, mask is None, layer, layers, NONE if alibi is None else alibi, 100.0, False, None, None)


def given_norm(given, heads, kv):
    return (given.shape[-1] // (heads + 2 * kv)) ** -0.25


CONTEXTS = {
    "plain": {}, "shared keys": {"kv": 2}, "one key": {"kv": 1}, "halves": {"rotary": (8, True, False)}, "neighbours": {"rotary": (4, False, True)},
    "window": {"window": 3}, "alibi": {"alibi": True}, "padded": {"mask": "padded"}, "bool": {"mask": "bool"},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", CONTEXTS)
def test_a_prompt_and_words_behind(dtype, what):
    """Breaks when a word's key lies at another place, layers share theirs, an earlier word is lost, or a new prompt still sees the old one."""
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
                if kind:  # what padding itself sees is nobody's business
                    out, want = out[:, 3 if step == 0 else 0:], want[:, 3 if step == 0 else 0:]
                near(out, want, dtype, 2)
                near(keys_so_far, k.transpose(1, 2), dtype)
                assert torch.equal(values_so_far.cpu().double(), v.transpose(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_encoders_and_masks_that_hide_all(dtype):
    """Breaks when one token alone of an encoder is taken for another one behind a past, or a hidden row gives no zeros."""
    of("allocate_workspace", dtype)(32, 4, 5, 2, 1)
    for tokens in (5, 1, 1):
        x, given = made(2, tokens, 96, dtype=dtype)
        q, k, v = (t.view(2, tokens, 4, 8).transpose(1, 2) for t in x.chunk(3, -1))
        want = (torch.softmax(q @ k.transpose(-1, -2) * 8 ** -0.5, -1) @ v).transpose(1, 2).flatten(2)
        near(context(given, dtype, triangular=False, layers=1)[0], want, dtype, 2)
    hidden = torch.full((2, 1, 1, 1), -math.inf, dtype=dtype, device=DEVICE)
    assert not context(given, dtype, hidden, triangular=False, layers=1)[0].cpu().any()
    assert context(given[:0], dtype, triangular=False, layers=1)[0].shape == (0, 1, 32)


def test_the_workspace():
    """Breaks when a larger batch overruns what a smaller one had, memory given back is still read, or one word too many is written."""
    m.allocate_workspace_fp32(32, 4, 5, 1, 1, 1, False, 0, 6, 1)
    given = torch.randn(3, 5, 96).to(DEVICE)
    assert context(given, torch.float32, layers=1)[1].shape == (3, 4, 5, 8)
    word = given[:, :1]
    assert context(word, torch.float32, layers=1)[1].shape == (3, 4, 6, 8)
    with pytest.raises((ValueError, RuntimeError), match="give init_inference a larger max_out_tokens"):
        context(word, torch.float32, layers=1)
    m.reset_cache()
    alone = context(word, torch.float32, layers=1)[0]
    torch.testing.assert_close(alone.cpu(), word[..., 64:].cpu())
    m.release_workspace()
    assert m.retake_workspace() is True
    with pytest.raises((ValueError, RuntimeError), match="are not in the workspace"):
        context(word, torch.float32, layers=1)
    with pytest.raises((ValueError, RuntimeError), match="no such layer"):
        context(given, torch.float32, layer=1, layers=1)
    context(given[:1, :0], torch.float32, layer=0, layers=2)
    with pytest.raises((ValueError, RuntimeError), match="nothing in front of it"):
        context(word[:1], torch.float32, layer=0, layers=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_prompt_for_several(dtype):
    """Breaks when an entry is overwritten before it is copied."""
    of("allocate_workspace", dtype)(32, 4, 5, 6, 2, 1, False, 0, 16, 1)
    given = [torch.randn(2, 5, 96).to(dtype).to(DEVICE) for _ in range(2)]
    kept = [context(x, dtype, layer=i)[1:] for i, x in enumerate(given)]
    kept = [t.cpu().clone() for pair in kept for t in pair]
    got = of("repeat_kv_cache", dtype)(2, 3)
    assert len(got) == 4
    for out, want in zip(got, kept):
        assert torch.equal(out.cpu(), want.repeat_interleave(3, 0))
    with pytest.raises((ValueError, RuntimeError), match="do not match the workspace's batch"):
        of("repeat_kv_cache", dtype)(4, 3)


@HOST
@pytest.mark.parametrize("call, text", [
    (lambda: m.vector_matmul_fp32(torch.zeros(1, 2, 3), torch.zeros(4, 5), False, NONE, False, False), "want one dtype, and as many channels"),
    (lambda: m.vector_matmul_fp32(torch.zeros(1, 2, 4), torch.zeros(4, 5).half(), False, NONE, False, False), "want one dtype"),
    (lambda: m.gated_activation(torch.zeros(1, 2, 3), torch.zeros(3), 3), "want an even number of channels"),
    (lambda: m.gated_activation(torch.zeros(1, 2, 4), torch.zeros(4), 1), "has no gate"),
    (lambda: ops.transformer_inference_bias_activation(torch.zeros(1, 2, 4), None, 7), "there is no such activation; got 7"),
    (lambda: m.dequantize_fp32(torch.zeros(4, 3, dtype=torch.int8), torch.zeros(3), 3), "the groups do not fit"),
    (lambda: m.softmax_fp32(torch.zeros(2, 2, 3, 3), torch.zeros(2, 4, 3, 3)[:, :3], NONE, False, False, False, 1, False, 1.0, 0, 1), "the mask does not fit"),
    (lambda: m.softmax_fp32(torch.zeros(2, 2, 3, 3), NONE, torch.zeros(3, 1, 3), False, False, False, 1, False, 1.0, 0, 1), "alibi does not fit"),
    (lambda: m.softmax_fp32(torch.zeros(3), NONE, NONE, False, False, False, 1, False, 1.0, 0, 1), "the scores do not fit"),
    (lambda: ops.transformer_inference_few_rows(torch.zeros(2, 4), torch.zeros(4, 6)[:, ::2], False), "rows and weights do not fit"),
    (lambda: ops.transformer_inference_few_rows(torch.zeros(2, 4), torch.zeros(4, 6), True), "rows and weights do not fit"),
    (lambda: context(torch.zeros(1, 2, 95), torch.float32), "queries, keys and values do not fit"),
    (lambda: context(torch.zeros(1, 2, 96).int(), torch.float32), "is not supported"),
    (lambda: context(torch.zeros(1, 2, 96), torch.float32, rotary=(10, True, False)), "the rotated dimensions are out of range"),
    (lambda: m.apply_rotary_pos_emb(torch.zeros(1, 2, 8), torch.zeros(1, 3, 8), 2, 0, 2, True, 1e4), "query and key do not fit"),
    (lambda: m.moe_res_matmul(torch.zeros(1, 2, 8), torch.zeros(3), torch.zeros(1, 2, 8)), "the coefficients do not fit"),
    (lambda: m.einsum_sec_sm_ecm_fp32(torch.zeros(2, 3), torch.zeros(2, 3)), "the tensors do not fit"),
    (lambda: m.residual_add_bias_fp32(*[torch.zeros(1, 1, 4)] * 3, None, None, 0, True, True, True), "mp_size is out of range"),
    (lambda: m.add_padding_fp32(torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 200, 8), torch.zeros(1, 1, 200, 8)), "the heads do not fit"),
    (lambda: m.allocate_workspace_fp32(32, 4, 5, 1, 0), "the sizes are out of range"),
])
def test_what_does_not_fit_is_a_value_error(call, text):
    """Breaks when memory beside a tensor is read instead."""
    with pytest.raises(ValueError, match=text):
        call()


@HOST
def test_opcheck_and_gradients():
    """torch's own checks of schemas, shapes and what is changed; and of gradients, where an op is made of torch's."""
    x, r, b = torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(8)
    w, v = torch.randn(8, 24), torch.randn(24, 8)
    check = torch.library.opcheck
    check(ops.transformer_inference_few_rows.default, (x, w, False))
    check(ops.transformer_inference_few_rows.default, (x, v, True))
    check(ops.transformer_inference_vector_matmul.default, (torch.randn(1, 1, 300), torch.randn(300, 300), b, False, False))
    check(ops.transformer_inference_layer_norm.default, (x, b, b, 1e-5))
    check(ops.transformer_inference_layer_norm_residual_store.default, (x, b, r, b, b, 1e-5))
    check(ops.transformer_inference_pre_rms_norm.default, (x, r, b, 1e-5))
    check(ops.transformer_inference_bias_activation.default, (x, b, 4))
    check(ops.transformer_inference_softmax.default, (torch.randn(2, 2, 3, 3), torch.rand(2, 1, 3, 3) < 0.5, torch.randn(4, 1, 3), True, True, 2, 0.5, 0, 1))
    check(ops.transformer_inference_qkv_gemm.default, (x, w, b, torch.randn(24), b, b, 1e-5, False, False))
    check(ops.transformer_inference_mlp_gemm.default, (x, r, b, w, v, torch.randn(24), b, b, 1e-5, True, b, b, False, 1, False))
    check(ops.transformer_inference_rms_mlp_gemm.default, (x, r, w, v, b, 1e-5, b, b, False, 2, False))
    check(ops.transformer_inference_residual_add_bias_.default, (x, r.clone(), x.clone(), b, b, 2, True, True, True))
    check(ops.transformer_inference_vector_add_.default, (x.clone(), r, 0.5))
    check(ops.transformer_inference_moe_res_matmul_.default, (x, torch.randn(16), r.clone()))
    check(ops.transformer_inference_dequantize.default, (torch.ones(4, 3, dtype=torch.int8), torch.ones(2), 2, torch.bfloat16))
    check(ops.transformer_inference_apply_rotary_pos_emb.default, (x, r, 4, 1, 1, True, 1e4))
    check(ops.transformer_inference_pad_transform.default, (x, r, r, 2, True))
    m.allocate_workspace_fp32(8, 2, 5, 2, 1)
    check(ops.transformer_inference_softmax_context.default, (torch.randn(2, 5, 24), None, 4, True, False, 2, -1, 0.5, True, False, 1, True, 0, 1, None, 1e4))
    wide = [t.double().requires_grad_() for t in (x, w, torch.randn(24), b, b)]
    assert torch.autograd.gradcheck(lambda x, w, c, g, z: ops.transformer_inference_qkv_gemm(x, w, NONE, c, g, z, 1e-5, False, False), wide)
