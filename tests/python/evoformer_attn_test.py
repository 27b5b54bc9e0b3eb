"""Attention with the two biases of an Evoformer block, compared with plain attention.
DS_ACCELERATOR selects the accelerator.
"""

import math
import os
import random

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
evoformer = accelerator.create_op_builder("EvoformerAttnBuilder").load()
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
ERROR = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def plain(q, k, v, bias1=None, bias2=None, scale=None):
    """Reference in float64. The result for a fully masked query is zero."""
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    scores = torch.einsum("...qhd,...khd->...hqk", q.double(), k.double()) * scale
    for bias in (bias1, bias2):
        if bias is not None:
            scores = scores + bias.double()
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
    return torch.einsum("...hqk,...khd->...qhd", weights, v.double())


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad) if isinstance(tensor, torch.Tensor) else tensor


def make(lead, queries, keys, heads, dim, dtype, has1=True, has2=True):
    """Return q, k, v and both biases, all of which require gradients."""
    shapes = [(*lead, queries, heads, dim), (*lead, keys, heads, dim), (*lead, keys, heads, dim)]
    shapes += [(*lead, 1, 1, keys) if has1 else None, (*lead[:-1], 1, heads, queries, keys) if has2 else None]
    return [None if shape is None else torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def compare(inputs, scale=None, error=None):
    """Compare the result and all gradients with the reference."""
    dtype = inputs[0].dtype
    error = error or ERROR[dtype]
    there = [on(tensor) for tensor in inputs]
    out = evoformer.evoformer_attention(*there, scale)
    want = plain(*inputs, scale)
    assert out.dtype == dtype and out.is_contiguous() and out.shape == inputs[0].shape
    torch.testing.assert_close(out.cpu().double(), want, rtol=error, atol=error)
    grad = torch.randn(out.shape).to(dtype)
    out.backward(on(grad))
    want.backward(grad.double())
    for name, mine, right in zip(("q", "k", "v", "bias1", "bias2"), there, inputs):
        if right is not None:
            torch.testing.assert_close(mine.grad.cpu().double(), right.grad.double(), rtol=2 * error,
                                       atol=2 * error * (1 + right.grad.abs().max().item() if right.numel() else 1),
                                       msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has1, has2", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("lead, queries, keys, heads, dim", [((1, 3), 48, 48, 2, 32), ((2, 2), 37, 61, 3, 20), ((5,), 70, 33, 1, 8)])
def test_matches_plain_attention(lead, queries, keys, heads, dim, dtype, has1, has2):
    compare(make(lead, queries, keys, heads, dim, dtype, has1, has2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_span_several_chunks(dtype):
    """Fails if the running softmax is wrong when the keys span several chunks, or a tile of queries
    is wrong.
    """
    compare(make((1, 1), 150, 700, 1, 16, dtype))


@pytest.mark.parametrize("lead, queries, keys, heads, dim", [
    ((0, 2), 5, 5, 2, 8), ((2, 0), 5, 5, 2, 8), ((1, 2), 0, 5, 2, 8), ((1, 2), 5, 0, 2, 8), ((1, 2), 5, 5, 0, 8), ((1, 2), 5, 5, 2, 0),
    ((1, 1), 1, 1, 1, 1), ((2, 1, 2), 3, 4, 2, 5)])
def test_empty_and_tiny_sizes(lead, queries, keys, heads, dim):
    """Fails if a size of zero or one causes a division by zero or an invalid read."""
    compare(make(lead, queries, keys, heads, dim, torch.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_without_visible_keys_are_zero(dtype):
    """Fails if a query whose keys are all masked by one of the biases gives NaN instead of a zero
    result and zero gradients.
    """
    inputs = make((2, 2), 40, 300, 2, 16, dtype)
    with torch.no_grad():
        inputs[3][0, 0] = -math.inf  # all keys of an entry are masked
        inputs[3][0, 1, ..., :260] = -math.inf  # masks more keys than fit in the first chunk
        inputs[4][1, 0, 1, 3] = -math.inf  # all keys of a query are masked
        inputs[4][1, 0, 0, :, 7:200] = -math.inf
    compare(inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e9, 3e4, 300.0, "least"])
def test_large_masks(dtype, size):
    """Fails if the backward pass loses accuracy under AlphaFold's masks, 1e9 * (mask - 1), because
    it assumes that the stored log-sum-exp is exact. If all keys of an entry are masked, only score
    differences that survive rounding count.
    """
    size = -torch.finfo(dtype).min if size == "least" else size
    if size > torch.finfo(dtype).max:
        pytest.skip("the dtype cannot represent this number")
    inputs = make((1, 3), 40, 90, 2, 16, dtype)
    with torch.no_grad():
        inputs[3].zero_()
        inputs[3][0, 0, ..., :50] = -size
        inputs[3][0, 1] = -size
        inputs[4].mul_(0.1)
    # The reference uses the op's compute dtype, so adding the mask loses the same digits, except
    # for an occasional last bit.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    leaves = [x.detach().to(wide).requires_grad_() for x in inputs]
    error = ERROR[dtype] + (2 * torch.finfo(wide).eps * size if torch.finfo(wide).eps * size < 0.1 else 0)
    scores = torch.einsum("...qhd,...khd->...hqk", leaves[0] / 4, leaves[1]) + (leaves[3] + leaves[4])
    want = torch.einsum("...hqk,...khd->...qhd", scores.softmax(-1), leaves[2])
    grad = torch.randn(leaves[0].shape).to(dtype)
    there = [on(x) for x in inputs]
    out = evoformer.evoformer_attention(*there)
    out.backward(on(grad))
    want.backward(grad.to(wide))
    torch.testing.assert_close(out.cpu().to(wide), want, rtol=error, atol=error)
    for mine, right in zip(there, leaves):
        torch.testing.assert_close(mine.grad.cpu().to(wide), right.grad, rtol=2 * error, atol=2 * error * (1 + right.grad.abs().max().item()))


def test_nan_propagates():
    q, k, v, bias1, bias2 = (x.detach() for x in make((1, 2), 5, 40, 1, 8, torch.float32))
    q[0, 0, 3, 0, 5] = math.nan
    bias2[0, 0, 0, 1, 39] = math.nan
    out = evoformer.evoformer_attention(on(q), on(k), on(v), on(bias1), on(bias2)).cpu()
    assert out[0, 0, 3].isnan().all() and out[0, :, 1].isnan().all() and not out[0, 1, 3].isnan().any() and not out[0, :, 4].isnan().any()


@pytest.mark.parametrize("which", range(4))
def test_strided_inputs(which):
    """Fails if strides are ignored. Some inputs are transposed, have a strided last dimension, or
    are expanded.
    """
    q, k, v, bias1, bias2 = (x.detach() for x in make((2, 3), 20, 20, 2, 16, torch.float32))
    there = [on(x) for x in (q, k, v, bias1, bias2)]
    if which == 0:
        there = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in there[:3]] + there[3:]
    elif which == 1:
        there = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in there[:3]] + [x.transpose(-1, 0).contiguous().transpose(-1, 0) for x in there[3:]]
    elif which == 2:
        there = [x.transpose(3, 4).contiguous().transpose(3, 4) for x in there]
    else:
        bias1, bias2 = bias1[:, :1].expand(2, 3, 1, 1, 20), bias2[:1, :, :1, :1].expand(2, 1, 2, 20, 20)
        there = [*there[:3], on(bias1[:, :1]).expand(2, 3, 1, 1, 20), on(bias2[:1, :, :1, :1]).expand(2, 1, 2, 20, 20)]
    out = evoformer.evoformer_attention(*there)
    torch.testing.assert_close(out.cpu().double(), plain(q, k, v, bias1, bias2), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("lead, heads, dim", [((2, 2), 2, 4), ((3,), 1, 17), ((1, 20), 2, 3)])
def test_gradients(lead, heads, dim):
    """Check all five gradients with torch's gradcheck in float64. Inputs and gradients are not
    contiguous, and few or many entries share bias2.
    """
    inputs = [on(x.detach().double().requires_grad_()) for x in make(lead, 6, 9, heads, dim, torch.float64)]

    def call(q, k, v, bias1, bias2):
        q, k, v = (x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (q, k, v))
        return evoformer.evoformer_attention(q, k, v, bias1, bias2, 0.3).transpose(0, -1)

    assert torch.autograd.gradcheck(call, inputs, fast_mode=lead != (2, 2))
    for alone in range(5):
        given = [x if i == alone else x.detach() for i, x in enumerate(inputs)]
        assert torch.autograd.gradcheck(lambda *x: evoformer.evoformer_attention(*x), given, fast_mode=True)
    assert torch.autograd.gradcheck(lambda q, bias2: evoformer.evoformer_attention(q, inputs[1], inputs[2], None, bias2), (inputs[0], inputs[4]),
                                    fast_mode=True)


def test_second_derivative_raises():
    """Fails if a second derivative is zero instead of raising an error."""
    q, k, v, bias1, bias2 = map(on, make((1, 2), 4, 4, 1, 4, torch.float64))
    first, = torch.autograd.grad(evoformer.evoformer_attention(q, k, v, bias1, bias2).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        first.sum().backward()


@HOST
@pytest.mark.parametrize("lead, heads", [((1, 6), 2), ((1, 1), 1), ((2, 40), 1)])
def test_bits_do_not_depend_on_threads(lead, heads):
    """Fails if a gradient that several threads accumulate is not bitwise reproducible, or its bits
    depend on the number of threads.
    """
    inputs = make(lead, 150, 150, heads, 16, torch.float32)
    grad = torch.randn(inputs[0].shape)

    def run(threads):
        torch.set_num_threads(threads)
        try:
            out = evoformer.evoformer_attention(*inputs)
            return out, *torch.autograd.grad(out, inputs, grad)
        finally:
            torch.set_num_threads(2)

    first = run(1)
    for threads in (2, 2, 3, 5):
        assert all(torch.equal(a, b) for a, b in zip(first, run(threads)))


@HOST
def test_memory():
    """Fails if memory proportional to entries x heads x queries x keys is allocated. The forward
    pass may allocate its result and one number per row. The backward pass may allocate the
    gradients, a copy of bias2's gradient per group of entries, and little more.
    """
    inputs = make((1, 16), 512, 512, 4, 16, torch.float32)
    size, square = 4 * inputs[0].numel(), 4 * inputs[4].numel()
    accelerator.reset_peak_memory_stats()
    before = accelerator.memory_allocated()
    out = evoformer.evoformer_attention(*inputs)
    assert accelerator.max_memory_allocated() - before <= size + size // 16 + 4 * 4096
    grad = torch.randn(out.shape)
    accelerator.reset_peak_memory_stats()
    before = accelerator.memory_allocated()
    torch.autograd.grad(out, inputs, grad)
    assert accelerator.max_memory_allocated() - before <= 3 * size + 6 * square + 2 * size // 16 + 8 * 4096


def deepspeeds_call(inputs, grad):
    """Call the functions as DeepSpeed's Python code does, with the tensors that it allocates."""
    q, k, v, bias1, bias2 = (torch.tensor([], dtype=inputs[0].dtype, device=DEVICE) if x is None else on(x.detach()) for x in inputs)
    out = torch.empty_like(q)
    lse = torch.empty((q.shape[:-3].numel(), q.shape[-2], (q.shape[-3] + 31) // 32 * 32), dtype=torch.float32, device=DEVICE)
    evoformer.attention(q, k, v, bias1, bias2, out, lse)
    grads = [torch.empty_like(x) for x in (q, k, v)] + [torch.zeros_like(x, dtype=torch.float32) for x in (bias1, bias2)]
    evoformer.attention_bwd(on(grad), q, k, v, out, lse, torch.empty_like(lse), bias1, bias2, *grads)
    return out, lse, grads


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("has1, has2", [(False, False), (True, False), (False, True), (True, True)])
def test_deepspeed_functions(dtype, has1, has2):
    """Fails if the arguments are in a different order than DeepSpeed's, or lse or a gradient is not
    written.
    """
    inputs = make((2, 3), 40, 40, 2, 16, dtype, has1, has2)
    grad = torch.randn(inputs[0].shape).to(dtype).transpose(0, 1).contiguous().transpose(0, 1)
    out, lse, grads = deepspeeds_call(inputs, grad)
    want = plain(*inputs)
    want.backward(grad.double())
    error = ERROR[dtype]
    torch.testing.assert_close(out.cpu().double(), want, rtol=error, atol=error)
    scores = torch.einsum("...qhd,...khd->...hqk", inputs[0].double(), inputs[1].double()) / 4
    for bias in inputs[3:]:
        scores = scores if bias is None else scores + bias.double()
    torch.testing.assert_close(lse.cpu()[..., :40].double(), scores.logsumexp(-1).flatten(0, 1), rtol=1e-4, atol=1e-4)
    assert (lse.cpu()[..., 40:] == math.inf).all()
    for mine, right in zip(grads, inputs):
        if right is not None:
            torch.testing.assert_close(mine.cpu().double(), right.grad.double(), rtol=2 * error, atol=2 * error * (1 + right.grad.abs().max().item()))
    biases = [bias for bias in inputs[3:] if bias is not None]
    if has1 or not has2:
        torch.testing.assert_close(evoformer.DS4Sci_EvoformerAttention(*map(on, inputs[:3]), list(map(on, biases))), out, rtol=0, atol=0)


def test_bias_gradients_are_accumulated():
    """Fails if the biases' gradients overwrite the tensors that DeepSpeed passes instead of being
    added to them.
    """
    inputs = make((1, 40), 20, 20, 1, 8, torch.float32)
    grad = torch.randn(inputs[0].shape)
    out, lse, grads = deepspeeds_call(inputs, grad)
    more = [torch.empty_like(x) for x in grads[:3]] + [x.clone() for x in grads[3:]]
    there = [on(x.detach()) for x in inputs]
    evoformer.attention_bwd(on(grad), *there[:3], out, lse, lse, *there[3:], *more)
    for once, twice in zip(grads, more):
        torch.testing.assert_close(twice.cpu(), (2 if once.shape != out.shape else 1) * once.cpu(), rtol=1e-5, atol=1e-5)


def test_autograd_detects_mutation():
    """Fails if autograd misses a write into a tensor that it saved. If an input requires gradients,
    writing the result to a given tensor must raise an error.
    """
    inputs = [on(x) for x in make((1, 2), 4, 4, 1, 4, torch.float32)]
    out = torch.ones(inputs[0].shape, device=DEVICE)
    lse = torch.empty((2, 1, 4), device=DEVICE)
    kept = (on(torch.ones(1, requires_grad=True)) * out).sum()
    with pytest.raises(ValueError, match="use evoformer_attention"):
        evoformer.attention(*inputs, out, lse)
    evoformer.attention(*(x.detach() for x in inputs), out, lse)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


Q, K, BIAS1, BIAS2 = torch.zeros(1, 2, 6, 3, 4), torch.zeros(1, 2, 5, 3, 4), torch.zeros(1, 2, 1, 1, 5), torch.zeros(1, 1, 3, 6, 5)
LSE = torch.zeros(2, 3, 6)


@HOST
@pytest.mark.parametrize("call", [
    lambda: evoformer.evoformer_attention(Q[0, 0], K[0, 0], K[0, 0]),
    lambda: evoformer.evoformer_attention(Q.int(), K.int(), K.int()),
    lambda: evoformer.evoformer_attention(Q, K, K.half()),
    lambda: evoformer.evoformer_attention(Q, K[:, :1], K),
    lambda: evoformer.evoformer_attention(Q, K, K[:, :, :4]),
    lambda: evoformer.evoformer_attention(Q, K[..., :3], K[..., :3]),
    lambda: evoformer.evoformer_attention(Q, K, K, BIAS1[..., :4]),
    lambda: evoformer.evoformer_attention(Q, K, K, BIAS1[:, :1]),
    lambda: evoformer.evoformer_attention(Q, K, K, BIAS1.double()),
    lambda: evoformer.evoformer_attention(Q, K, K, None, BIAS2[:, :, :2]),
    lambda: evoformer.evoformer_attention(Q, K, K, None, BIAS2.transpose(3, 4)),
    lambda: evoformer.evoformer_attention(Q, K, K, BIAS2),
    lambda: evoformer.evoformer_attention(Q, K, K, scale=math.inf),
    lambda: evoformer.attention(Q, K, K, BIAS1, BIAS2, torch.empty(6), LSE),
    lambda: evoformer.attention(Q, K, K, BIAS1, BIAS2, torch.empty(Q.shape).half(), LSE),
    lambda: evoformer.attention(Q, K, K, BIAS1, BIAS2, torch.empty(1, 2, 3, 6, 4).transpose(2, 3), LSE),
    lambda: evoformer.attention(Q, K, K, BIAS1, BIAS2, torch.empty(Q.shape), LSE[..., :5]),
    lambda: evoformer.attention(Q, K, K, BIAS1, BIAS2, torch.empty(Q.shape), LSE.double()),
    lambda: evoformer.attention_bwd(Q[:, :1], Q, K, K, Q, LSE, None, None, None, Q.clone(), K.clone(), K.clone(), None, None),
    lambda: evoformer.attention_bwd(Q, Q, K, K, Q, LSE, None, None, None, Q.clone(), Q.clone(), K.clone(), None, None),
    lambda: evoformer.attention_bwd(Q, Q, K, K, Q, LSE, None, None, None, Q.clone(), K.clone(), K.clone(), BIAS1.clone(), None),
    lambda: evoformer.attention_bwd(Q, Q, K, K, Q, LSE, None, BIAS1, None, Q.clone(), K.clone(), K.clone(), BIAS1.double(), None),
    lambda: evoformer.DS4Sci_EvoformerAttention(Q, K, K, [None] * 3),
])
def test_errors(call):
    """Fails if an invalid argument causes an access outside a tensor instead of a ValueError."""
    with pytest.raises(ValueError, match="; got .*, want "):
        call()


@HOST
def test_opcheck():
    """Fails if torch cannot trace an op, or a schema does not declare a mutation."""
    op = torch.ops.anyaccel
    inputs = make((1, 2), 6, 5, 3, 4, torch.float32)
    torch.library.opcheck(op.evoformer_attention.default, (*inputs,))
    torch.library.opcheck(op.evoformer_attention.default, (*inputs[:3], None, inputs[4]), {"scale": 0.5})
    given = [x.detach() for x in inputs]
    out, lse = op._evoformer_attention_forward(*given)
    torch.library.opcheck(op._evoformer_attention_forward.default, (*given,))
    torch.library.opcheck(op._evoformer_attention_into.default, (*given, None, out.clone(), lse.clone()))
    torch.library.opcheck(op._evoformer_attention_backward.default, (out, *given[:3], out, lse, *given[3:], None, True, True))
    torch.library.opcheck(op._evoformer_attention_backward_into.default,
                          (out, *given[:3], out, lse, *given[3:], None, *(torch.zeros_like(x) for x in given)))


def test_compile():
    """Fails if a compiled function gives different results or gradients."""
    inputs = [on(x) for x in make((1, 2), 6, 5, 3, 4, torch.float32)]
    compiled = torch.compile(evoformer.evoformer_attention, backend="aot_eager", fullgraph=True)
    got, want = compiled(*inputs), evoformer.evoformer_attention(*inputs)
    assert torch.equal(got, want)
    for mine, right in zip(torch.autograd.grad(got.square().sum(), inputs), torch.autograd.grad(want.square().sum(), inputs)):
        assert torch.equal(mine, right)


def test_random_shapes():
    """Compare random shapes. EVOFORMER_CASES sets their number; tests/slow runs hundreds."""
    rng = random.Random(1)
    for case in range(int(os.environ.get("EVOFORMER_CASES", 8))):
        lead = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
        queries, keys = (rng.choice((rng.randint(1, 40), rng.randint(1, 140), 64, 256, 300)) for _ in range(2))
        heads, dim, dtype = rng.randint(1, 3), rng.choice((rng.randint(1, 80), 16, 32, 64)), DTYPES[case % 4]
        inputs = make(lead, queries, keys, heads, dim, dtype, rng.random() < 0.7, rng.random() < 0.7)
        with torch.no_grad():
            for bias in inputs[3:]:
                if bias is not None and rng.random() < 0.5:
                    bias[torch.rand(bias.shape) < rng.random()] = -math.inf
        try:
            compare(inputs, rng.choice((None, 0.2, -0.1)), 2 * ERROR[dtype])
        except AssertionError as error:
            raise AssertionError(f"case {case}: {lead}, {queries} x {keys}, {heads} heads of {dim}, {dtype}") from error
