"""Ops of DeepSpeed's inference v2, compared with references in float64: ragged batches over a paged
cache, and the other ops of a layer. Block lists are host addresses, so the ops that read them are
tested only on the host.
"""

import math
import random

import pytest
import torch
import torch.nn.functional as F

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
core = accelerator.create_op_builder("InferenceCoreBuilder").load()
utils = accelerator.create_op_builder("RaggedUtilsBuilder").load()
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="block lists contain host addresses")
ragged = accelerator.create_op_builder("RaggedOpsBuilder").load() if DEVICE == "cpu" else None
ops = torch.ops.anyaccel
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
ERRORS = {torch.float32: 3e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def seeds():
    random.seed(5)
    torch.manual_seed(5)


def near(got, want, dtype, factor=1.0):
    assert got.dtype == dtype and got.shape == want.shape, (got.dtype, got.shape, want.shape)
    if want.numel():
        worst = ((got.cpu().double() - want).abs().max() / want.abs().max().clamp(min=1)).item()
        assert worst <= ERRORS[dtype] * factor, worst


def made(*sizes, dtype=torch.float32):
    given = torch.randn(*sizes).to(dtype)
    return given.double(), given.to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (5, 24), (2, 3, 130)])
def test_norms_and_activations(dtype, shape):
    """Fails if a result is written to the wrong tensor, the gate is not the odd channel, or gelu is
    not the tanh variant.
    """
    (x, gx), (r, gr), (g, gg), (b, gb) = made(*shape, dtype=dtype), made(*shape, dtype=dtype), made(shape[-1], dtype=dtype), made(shape[-1], dtype=dtype)
    norm = lambda t: F.layer_norm(t, shape[-1:], g, b, 1e-5)  # noqa: E731
    rms = lambda t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * g  # noqa: E731
    out, more = torch.empty_like(gx), torch.empty_like(gx)
    core.layer_norm(out, gx, gg, gb, 1e-5)
    near(out, norm(x), dtype)
    core.post_layer_norm(out, gx, gr, gg, gb, 1e-5)
    near(out, norm(x + r), dtype)
    core.rms_norm(out, gx, gg, 1e-5)
    near(out, rms(x), dtype)
    own, own_residual = gx.clone(), gr.clone()
    core.pre_layer_norm(own, own_residual, own, own_residual, gg, gb, 1e-5)
    near(own, x + r, dtype)
    near(own_residual, norm(x + r), dtype)
    core.rms_pre_norm(out, more, gx, gr, gg, 1e-5)
    near(out, rms(x + r), dtype)
    near(more, x + r, dtype)
    tanh = lambda t: F.gelu(t, approximate="tanh")  # noqa: E731
    for kind, act in ((0, tanh), (1, F.relu), (2, F.silu), (6, lambda t: t)):
        for bias, wide in ((gb, b), (None, 0)):
            own = gx.clone()
            core.bias_activation(own, bias, kind)
            near(own, act(x + wide), dtype)
    half = torch.empty(*shape[:-1], shape[-1] // 2, dtype=dtype, device=DEVICE)
    for kind, act in ((3, tanh), (4, F.relu), (5, F.silu)):
        for bias, wide in ((gb, b), (None, 0)):
            core.gated_activation(half, gx, bias, kind)
            near(half, act((x + wide)[..., ::2]) * (x + wide)[..., 1::2], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    """Fails if weights are read as transposed, or leading dimensions are lost."""
    core.create_handle()
    for sizes in ((5, 24), (0, 24), (2, 3, 24)):
        (x, gx), (w, gw) = made(*sizes, dtype=dtype), made(10, 24, dtype=dtype)
        out = torch.empty(*sizes[:-1], 10, dtype=dtype, device=DEVICE)
        core.blas_linear(out, gx, gw)
        near(out, x @ w.t(), dtype)
        core.blas_linear(out, gx, gw.t().contiguous().t())
        near(out, x @ w.t(), dtype)
    # Products of few rows with large weights use separate kernels.
    for inputs, outputs in ((300, 257), (64, 2048)):
        (x, gx), (w, gw) = made(17, inputs, dtype=dtype), made(outputs, inputs, dtype=dtype)
        for rows in (0, 1, 3, 16, 17):
            out = torch.full((rows, outputs), math.nan, dtype=dtype, device=DEVICE)
            core.blas_linear(out, gx[:rows], gw)
            near(out, x[:rows] @ w.t(), dtype)
    (a, ga), (b, gb) = made(2, 3, 4, 6, dtype=dtype), made(2, 3, 5, 4, dtype=dtype)
    out = torch.empty(2, 3, 5, 6, dtype=dtype, device=DEVICE)
    core.blas_4d_matmul(out, gb, ga)
    near(out, b @ a, dtype)


def test_buffer_views():
    """Fails if a view is a copy, has a wrong offset, or extends past the buffer's end."""
    buffer = torch.zeros(64, dtype=torch.uint8, device=DEVICE)
    like = torch.empty(2, 3, dtype=torch.bfloat16)
    view = utils.allocate_view_on(like, buffer, 8)
    assert view.shape == (2, 3) and view.dtype == torch.bfloat16 and str(view.device) == str(buffer.device)
    view.fill_(1)
    assert buffer.cpu().view(torch.bfloat16).tolist() == [0] * 4 + [1] * 6 + [0] * 22
    turned = utils.allocate_view_like((3, 2), (1, 3), torch.empty(0, dtype=torch.float32), buffer, 40)
    turned.copy_(torch.arange(6.0).view(3, 2))
    assert buffer.cpu()[40:].view(torch.float32).tolist() == [0, 2, 4, 1, 3, 5]
    assert utils.allocate_view_like((0, 4), (4, 1), like, buffer, 64).shape == (0, 4)
    host = utils.allocate_fast_host_buffer(view)
    assert host.shape == view.shape and host.dtype == view.dtype and host.device.type == "cpu"
    for offset in (1, 54, -8):
        with pytest.raises((ValueError, RuntimeError), match="does not fit in the buffer"):
            utils.allocate_view_on(like, buffer, offset)


class Batch:
    """Sequences with (seen, new) token counts and random cache blocks, and the tensors that
    DeepSpeed's Python code passes.
    """

    def __init__(self, sequences, blocks, block):
        free = random.sample(range(blocks), blocks)
        self.sequences, self.lists, rows, self.block = sequences, [], [], block
        first = 0
        for seen, new in sequences:
            count = -(-(seen + new) // block)
            self.lists.append(torch.tensor([free.pop() for _ in range(count)], dtype=torch.int32))
            rows.append([first, new, seen, 0])
            first += new
        self.tokens = first
        self.metadata = torch.tensor([first, len(sequences)], dtype=torch.int32)
        self.rows = torch.tensor(rows, dtype=torch.int32).view(-1, 4)
        self.to_seq = torch.cat([torch.full((new,), i, dtype=torch.int32) for i, (_, new) in enumerate(sequences)]) if sequences else torch.zeros(0, dtype=torch.int32)
        self.pointers = torch.tensor([each.data_ptr() for each in self.lists], dtype=torch.int64)

    def place(self, cache, i, token):
        return cache[self.lists[i][token // self.block], token % self.block]

    def all(self):
        return self.metadata, self.rows, self.to_seq, self.pointers


CASES = [[(0, 5)], [(3, 1), (0, 7), (20, 1), (4, 9)], [(0, 1), (0, 1)], [(15, 1), (16, 17)], []]


def rotated(x, place, rotary, steps):
    out = x.clone()
    half = rotary // 2
    for i in range(half):
        angle = place * steps[i]
        out[..., i] = x[..., i] * math.cos(angle) - x[..., i + half] * math.sin(angle)
        out[..., i + half] = x[..., i + half] * math.cos(angle) + x[..., i] * math.sin(angle)
    return out


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ["copied", "rotated", "in part", "trained"])
def test_kv_cache_writes(dtype, case, how):
    """Fails if a token is written to the wrong block or slot, is rotated for the wrong position, or
    changes other cache entries.
    """
    heads, kv, dim, block = 4, 2, 16, 8
    batch = Batch(case, 12, block)
    qkv, given = made(batch.tokens, (heads + 2 * kv) * dim, dtype=dtype)
    before, cache = made(12, block, 2, kv, dim, dtype=dtype)
    want = before.clone()
    rotary = {"copied": 0, "rotated": dim, "in part": 8, "trained": 6}[how]
    steps = [100.0 ** (-2 * i / rotary) for i in range(rotary // 2)] if how != "trained" else [0.5, 0.25, 0.1]
    q, k, v = given.split([heads * dim, kv * dim, kv * dim], 1)
    wide_q, wide_k, wide_v = (t.reshape(batch.tokens, t.shape[1] // dim, dim) for t in qkv.split([heads * dim, kv * dim, kv * dim], 1))
    want_q = wide_q.clone()
    for i, (seen, new) in enumerate(case):
        for t in range(new):
            token = int(batch.rows[i, 0]) + t
            want_q[token] = rotated(wide_q[token], seen + t, rotary, steps)
            place = batch.place(want, i, seen + t)
            place[0], place[1] = rotated(wide_k[token], seen + t, rotary, steps), wide_v[token]
    if how == "copied":
        ragged.linear_kv_copy(cache, q, k, v, *batch.all())
    elif how == "trained":
        ragged.kv_trained_rotary_embeddings(cache, q, k, v, torch.tensor(steps), *batch.all())
    else:
        ragged.kv_rotary_embeddings(cache, q, k, v, rotary, 100.0, *batch.all())
    near(cache, want, dtype, 2)
    near(given[:, :heads * dim].reshape(batch.tokens, heads, dim), want_q, dtype, 2)


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("causal", [True, False])
def test_attention(dtype, case, causal):
    """Fails if a query attends to a later key, to another sequence or head, or to unused slots of a
    block.
    """
    heads, kv, dim, block = 6, 2, 20, 8
    batch = Batch(case, 12, block)
    q, given = made(batch.tokens, heads * dim, dtype=dtype)
    cache, kept = made(12, block, 2, kv, dim, dtype=dtype)
    for query_block in (1, 4, 128):
        atoms = torch.empty(64, 8, dtype=torch.int32)
        count = ragged.build_atoms(atoms, batch.metadata, batch.rows, batch.pointers, query_block, block)
        assert count == sum(-(-new // query_block) for _, new in case)
        out = torch.full_like(given, math.nan)
        ragged.flash_attn_by_atoms(out, given, kept[:, :, 0], kept[:, :, 1], atoms[:count], 0.3, causal)
        want = torch.empty_like(q).view(batch.tokens, heads, dim)
        for i, (seen, new) in enumerate(case):
            places = [batch.place(cache, i, t) for t in range(seen + new)]
            k, v = torch.stack([p[0] for p in places]), torch.stack([p[1] for p in places])
            for t in range(new):
                token = int(batch.rows[i, 0]) + t
                # an atom's last visible key is that of its last query
                end = seen + t + 1 if causal else seen + min((t // query_block + 1) * query_block, new)
                for h in range(heads):
                    own = h // (heads // kv)
                    share = torch.softmax(k[:end, own] @ q[token].view(heads, dim)[h] * 0.3, 0)
                    want[token, h] = share @ v[:end, own]
        near(out, want.flatten(1), dtype)


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("placed", [True, False])
def test_embeddings_and_logits_rows(dtype, case, placed):
    """Fails if positions are counted from the start of the batch, or the logits use the row of the
    wrong token.
    """
    batch = Batch(case, 12, 8)
    (table, weight), (places, positions) = made(30, 16, dtype=dtype), made(12, 16, dtype=dtype)
    ids = torch.randint(0, 30, (batch.tokens,))
    out = torch.zeros(batch.tokens, 16, dtype=dtype)
    if batch.tokens:
        ids[0] = -1  # padding has no embedding row
    ragged.ragged_embed(out, ids.int() if placed else ids, weight, positions if placed else None, 2, *batch.all())
    want = torch.zeros(batch.tokens, 16, dtype=torch.float64)
    for i, (seen, new) in enumerate(case):
        for t in range(new):
            token = int(batch.rows[i, 0]) + t
            if ids[token] >= 0:
                want[token] = table[ids[token]] + (places[min(seen + t + 2, 11)] if placed else 0)
    near(out, want, dtype)
    x, given = made(batch.tokens, 16, dtype=dtype)
    last = torch.zeros(len(case), 16, dtype=dtype)
    ragged.gather_for_logits(last, given, batch.metadata, batch.rows)
    for i, (_, new) in enumerate(case):
        assert torch.equal(last[i].double(), x[int(batch.rows[i, 0]) + new - 1])


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("choices", [1, 2, 3])
@pytest.mark.parametrize("tokens, real", [(9, 9), (9, 6), (0, 0)])
def test_expert_routing(dtype, choices, tokens, real):
    """Fails if two tokens share a slot, a token is lost on its way to its experts or back, or
    padding is routed to an expert.
    """
    experts, channels = 5, 8
    logits, given = made(tokens, experts, dtype=dtype)
    if tokens:
        given[0] = logits[0] = 0  # ties go to the first expert
    counts = torch.zeros(experts, dtype=torch.int32)
    scores = torch.zeros(tokens, choices)
    assigned, offsets, slots = (torch.full((tokens, choices), 7, dtype=torch.int32) for _ in range(3))
    ragged.top_k_gating(counts, scores, assigned, offsets, given, torch.tensor([real, 1], dtype=torch.int32))
    shares = torch.softmax(logits, 1)
    order = torch.sort(logits, dim=1, descending=True, stable=True).indices[:, :choices]
    assert torch.equal(assigned[:real].long(), order[:real]) and (assigned[real:] == -1).all() and (offsets[real:] == -1).all()
    torch.testing.assert_close(scores[:real].double(), shares.gather(1, order)[:real], rtol=1e-5, atol=1e-6)
    assert counts.sum() == real * choices
    x, rows = made(tokens, channels, dtype=dtype)
    sums, moved = torch.zeros(experts, dtype=torch.int64), torch.zeros(tokens * choices, channels, dtype=dtype)
    ragged.moe_scatter(moved, sums, slots, rows, counts, assigned, offsets)
    assert torch.equal(sums, counts.long().cumsum(0)) and (slots[real:] == -1).all()
    used = slots[:real].flatten().tolist()
    assert sorted(used) == list(range(real * choices))
    for token in range(real):
        for i in range(choices):
            slot, expert = int(slots[token, i]), int(assigned[token, i])
            assert (sums[expert - 1] if expert else 0) <= slot < sums[expert] and torch.equal(moved[slot], rows[token])
    for normalized in (False, True):
        out = torch.zeros(tokens, channels, dtype=dtype)
        counts.fill_(3)
        ragged.moe_gather(out, moved * 2, scores, slots, counts, normalized)
        factor = (scores / scores.sum(1, keepdim=True) if normalized else scores).sum(1, keepdim=True).double() * 2
        want = x * factor
        want[real:] = 0
        near(out, want, dtype, 2)
        assert not counts.any()


BATCH = Batch([(0, 5), (3, 2)], 4, 8) if DEVICE == "cpu" else None
CACHE = torch.zeros(4, 8, 2, 2, 16)


def far(place, count):
    """Return BATCH's rows with a value that overflows 32 bits when the sequence's token count is
    added to it. `place` is the column: 0 for the first token, 2 for the number of seen tokens.
    """
    rows = BATCH.rows.clone()
    rows[0, 1] = count
    rows[0, place] = 2**31 - 1
    return rows


def lost():
    batch = Batch([(0, 5), (3, 6)], 4, 8)
    batch.lists[1][1] = 9
    cache = CACHE.clone()
    try:
        ragged.linear_kv_copy(cache, *[torch.ones(11, 32)] * 3, *batch.all())
    finally:
        assert not cache.any()


def lost_expert():
    slots, sums, moved = torch.zeros(2, 1, dtype=torch.int32), torch.zeros(3, dtype=torch.int64), torch.zeros(2, 4)
    try:
        ragged.moe_scatter(moved, sums, slots, torch.ones(2, 4), torch.ones(3, dtype=torch.int32), torch.tensor([[0], [5]], dtype=torch.int32),
                           torch.zeros(2, 1, dtype=torch.int32))
    finally:
        assert not moved.any() and not sums.any()


def lost_in_attention():
    batch = Batch([(0, 5)], 4, 8)
    atoms = torch.empty(1, 8, dtype=torch.int32)
    ragged.build_atoms(atoms, batch.metadata, batch.rows, batch.pointers, 8, 8)
    batch.lists[0][0] = 9
    ragged.flash_attn_by_atoms(torch.zeros(5, 32), torch.zeros(5, 32), CACHE[:, :, 0], CACHE[:, :, 1], atoms, 1.0, True)


@HOST
@pytest.mark.parametrize("call, text", [
    (lambda: core.layer_norm(torch.zeros(2, 4), torch.zeros(2, 3), torch.zeros(3), torch.zeros(3), 1e-5), "the result has the wrong shape or dtype"),
    (lambda: core.bias_activation(torch.zeros(2, 4), None, 3), "use gated_activation"),
    (lambda: core.gated_activation(torch.zeros(2, 2), torch.zeros(2, 4), None, 0), "is not gated"),
    (lambda: core.gated_activation(torch.zeros(2, 2), torch.zeros(2, 5), None, 3), "twice as many channels"),
    (lambda: core.blas_linear(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(3, 5)), "of the tensors do not match"),
    (lambda: ragged.ragged_embed(torch.zeros(3, 16), torch.zeros(7), torch.zeros(9, 16), None, 0, *BATCH.all()), "has too few rows"),
    (lambda: ragged.linear_kv_copy(CACHE[0], *[torch.zeros(7, 32)] * 3, *BATCH.all()), "the cache has the wrong shape"),
    (lambda: ragged.linear_kv_copy(CACHE, torch.zeros(7, 32), torch.zeros(7, 48), torch.zeros(7, 32), *BATCH.all()), "queries, keys or values have the wrong shape"),
    (lambda: ragged.linear_kv_copy(CACHE.clone(), *[torch.zeros(7, 16)] * 3, *BATCH.all()), "queries, keys or values have the wrong shape"),
    (lambda: ragged.kv_rotary_embeddings(CACHE, *[torch.zeros(7, 32)] * 3, 18, 1e4, *BATCH.all()), "the number of rotary dimensions is out of range"),
    (lambda: ragged.build_atoms(torch.empty(1, 8, dtype=torch.int32), BATCH.metadata, BATCH.rows, BATCH.pointers, 2, 8), "the tensor is too small for the atoms"),
    (lambda: ragged.gather_for_logits(torch.zeros(2, 4), torch.zeros(7, 4), torch.tensor([4, 2], dtype=torch.int32), BATCH.rows), "a sequence exceeds the batch"),
    (lambda: ragged.gather_for_logits(torch.zeros(2, 4), torch.zeros(7, 4), BATCH.metadata.long(), BATCH.rows), "the batch metadata: wrong size, dtype or strides"),
    (lambda: ragged.gather_for_logits(torch.zeros(2, 4), torch.zeros(7, 4), BATCH.metadata, far(0, 1)), "a sequence exceeds the batch"),
    (lambda: ragged.linear_kv_copy(CACHE, *[torch.zeros(7, 32)] * 3, BATCH.metadata, far(2, 1), *BATCH.all()[2:]), "longer than the cache"),
    (lambda: ragged.linear_kv_copy(torch.zeros(4, 0, 2, 2, 16), *[torch.zeros(7, 32)] * 3, *BATCH.all()), "the cache has the wrong shape"),
    (lambda: ragged.ragged_embed(torch.zeros(16, 7).t(), torch.zeros(7), torch.zeros(9, 16), None, 0, *BATCH.all()), "of the tensors do not match"),
    (lambda: ragged.ragged_embed(torch.zeros(7, 16), torch.zeros(7, 0), torch.zeros(9, 16), None, 0, *BATCH.all()), "of the tensors do not match"),
    (lost, "a block number is out of range; got 9, want 0 to 3"),
    (lost_expert, "an assignment is out of range; got expert 5"),
    (lost_in_attention, "a block number is out of range; got 9, want 0 to 3"),
])
def test_invalid_arguments_raise_value_error(call, text):
    """Fails if an invalid argument causes an access outside a tensor instead of a ValueError."""
    with pytest.raises(ValueError, match=text):
        call()


@HOST
def test_opcheck():
    """Check schemas, shapes and mutations with torch's opcheck."""
    check = torch.library.opcheck
    x, g = torch.randn(7, 16), torch.randn(16)
    out, more, half = torch.zeros(7, 16), torch.zeros(7, 16), torch.zeros(7, 8)
    check(ops.inference_core_layer_norm.default, (out, x, g, g, 1e-5))
    check(ops.inference_core_pre_layer_norm.default, (out, more, x, x * 2, g, g, 1e-5))
    check(ops.inference_core_rms_pre_norm.default, (out, more, x, x * 2, g, 1e-5))
    check(ops.inference_core_bias_activation.default, (x.clone(), g, 0))
    check(ops.inference_core_gated_activation.default, (half, x, g, 4))
    check(ops.inference_core_blas_linear.default, (half, x, torch.randn(8, 16)))
    check(ops.inference_core_blas_linear.default, (torch.zeros(7, 300), torch.randn(7, 300), torch.randn(300, 300)))
    check(ops.allocate_view_on.default, (torch.empty(2, 3), torch.zeros(64, dtype=torch.uint8), 8))
    q = [torch.randn(7, 32) for _ in range(3)]
    check(ops.ragged_embed.default, (torch.zeros(7, 16), torch.arange(7), torch.randn(9, 16), None, 0, *BATCH.all()))
    check(ops.ragged_gather_for_logits.default, (torch.zeros(2, 16), x, BATCH.metadata, BATCH.rows))
    check(ops.ragged_kv_rotary_embeddings.default, (CACHE.clone(), *q, 16, 1e4, *BATCH.all()))
    check(ops.ragged_kv_trained_rotary_embeddings.default, (CACHE.clone(), *q, torch.ones(4), *BATCH.all()))
    check(ops.ragged_linear_kv_copy.default, (CACHE.clone(), *q, *BATCH.all()))
    atoms = torch.zeros(4, 8, dtype=torch.int32)
    assert ragged.build_atoms(atoms, BATCH.metadata, BATCH.rows, BATCH.pointers, 4, 8) == 3
    check(ops.ragged_attention.default, (torch.zeros(7, 32), q[0], CACHE[:, :, 0], CACHE[:, :, 1], atoms[:3], 0.3, True))
    number = lambda *sizes: torch.zeros(*sizes, dtype=torch.int32)  # noqa: E731
    check(ops.ragged_top_k_gating.default, (number(5), torch.zeros(7, 2), number(7, 2), number(7, 2), torch.randn(7, 5), BATCH.metadata))
    check(ops.ragged_moe_scatter.default, (torch.zeros(14, 16), torch.zeros(5, dtype=torch.int64), number(7, 1), x, number(5) + 7, number(7, 1),
                                           torch.arange(7, dtype=torch.int32).view(7, 1)))
    check(ops.ragged_moe_gather.default, (out, x, torch.rand(7, 1), torch.arange(7, dtype=torch.int32).view(7, 1), number(5), True))
