"""Forward and backward passes of decoder layers, compared with float64 references that use torch's
ops. DS_ACCELERATOR selects the accelerator.
"""

import math

import pytest
import torch
from torch.nn import functional

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
ops = accelerator.create_op_builder("DecoderTrainingBuilder").load()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ERROR = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
ACTIVATIONS = (functional.silu, functional.gelu, lambda x: functional.gelu(x, approximate="tanh"), functional.relu,
               lambda x: functional.relu(x).square())


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad) if isinstance(tensor, torch.Tensor) else tensor


def listed(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def compare(ours, reference, *arguments, scale=1.0):
    """Compare results and gradients of `ours` with those of `reference` in float64. All
    floating-point arguments that require gradients are checked.
    """
    there = [on(argument) for argument in arguments]
    exact = [argument.detach().double().requires_grad_(argument.requires_grad)
             if isinstance(argument, torch.Tensor) and argument.is_floating_point() else argument for argument in arguments]
    got, want = listed(ours(*there)), listed(reference(*exact))
    assert len(got) == len(want)
    dtype = arguments[0].dtype
    error = ERROR[dtype] * scale
    grads = [torch.randn(result.shape, dtype=torch.float64).to(dtype).double() for result in want]
    for mine, right in zip(got, want):
        assert mine.shape == right.shape
        torch.testing.assert_close(mine.cpu().double(), right, rtol=error, atol=error)
    torch.autograd.backward(got, [grad.to(mine.dtype).to(DEVICE) for grad, mine in zip(grads, got)])
    torch.autograd.backward(want, grads)
    for mine, right in zip(there, exact):
        if isinstance(mine, torch.Tensor) and mine.requires_grad:
            assert mine.grad.dtype == mine.dtype
            bound = 4 * error * max(1.0, right.grad.abs().max().item())
            torch.testing.assert_close(mine.grad.cpu().double(), right.grad, rtol=0, atol=bound)


def made(*shape, dtype=torch.float32, grad=True):
    return torch.randn(shape).to(dtype).requires_grad_(grad)


def norm(x, weight, eps, plus_one):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (weight + 1 if plus_one else weight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5, 64), (1, 7), (700, 33), (0, 16)])
@pytest.mark.parametrize("plus_one", [False, True])
def test_rms_norm(dtype, shape, plus_one):
    x, weight = made(*shape, dtype=dtype), made(shape[-1], dtype=dtype)
    if x.numel():
        compare(ops.training_rms_norm, norm, x, weight, 1e-5, plus_one, scale=math.sqrt(max(1, x.numel() / shape[-1])) / 2)
    else:
        out = ops.training_rms_norm(on(x), on(weight), 1e-5, plus_one)
        assert out.shape == x.shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rms_norm(dtype):
    """Fails if the gradient from the other use of the sum is lost, or is added twice."""
    def ours(x, residual, weight):
        out, total = ops.training_add_rms_norm(x, residual, weight, 1e-6)
        return out, total

    def reference(x, residual, weight):
        total = x + residual
        # The op rounds the sum to its dtype before the norm.
        rounded = total + (total.detach().to(dtype).double() - total.detach())
        return norm(rounded, weight, 1e-6, False), rounded

    compare(ours, reference, made(4, 9, 48, dtype=dtype), made(4, 9, 48, dtype=dtype), made(48, dtype=dtype), scale=2)


def test_add_rms_norm_with_one_use():
    """Fails if a result without a gradient breaks the backward pass."""
    for use in (0, 1):
        x, residual, weight = (on(made(6, 16)) for _ in range(3))
        weight = on(made(16))
        ops.training_add_rms_norm(x, residual, weight)[use].sum().backward()
        assert x.grad.equal(residual.grad) and x.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", range(5))
def test_gated_activation(dtype, activation):
    def reference(gate_up, index):
        gate, up = gate_up.chunk(2, -1)
        return ACTIVATIONS[index](gate) * up

    gate_up = (4 * torch.randn(5, 7, 2 * 43)).to(dtype).requires_grad_()
    compare(ops.training_gated_activation, reference, gate_up, activation, scale=10)


def test_gated_activation_of_extreme_numbers():
    """Fails if large gates overflow, or a NaN is lost."""
    gate = torch.tensor([-1e18, -200.0, -88.0, 88.0, 200.0, 1e18, math.nan, 0.0])
    for activation, function in enumerate(ACTIVATIONS):
        out = ops.training_gated_activation(on(torch.cat([gate, torch.ones(8)])[None]), activation).cpu()[0]
        torch.testing.assert_close(out, function(gate), rtol=1e-5, atol=1e-15, equal_nan=True)


def turned(x, cos, sin):
    half = cos.shape[-1]
    first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


@pytest.mark.parametrize("dtype", (torch.float64, *DTYPES))
@pytest.mark.parametrize("heads, kv_heads, dim, half, entries", [(3, 1, 16, 8, ()), (4, 2, 20, 5, (2,)), (2, 2, 8, 0, ())])
def test_rotary_split(dtype, heads, kv_heads, dim, half, entries):
    time, real = 6, torch.float64 if dtype == torch.float64 else torch.float32
    angles = torch.rand(*entries, time, half, dtype=torch.float64) * 6
    cos, sin = angles.cos().to(real), angles.sin().to(real)

    def reference(qkv, cos, sin):
        cos, sin = (table.unsqueeze(1) if entries else table for table in (cos, sin))
        q, k, v = qkv.view(2, time, heads + 2 * kv_heads, dim).transpose(1, 2).split([heads, kv_heads, kv_heads], 1)
        return turned(q, cos, sin), turned(k, cos, sin), v

    compare(lambda *given: ops.training_rotary_split(*given, heads, kv_heads), reference,
            made(2, time, (heads + 2 * kv_heads) * dim, dtype=dtype), cos, sin)


def attention(q, k, v, window, starts):
    """Reference in float64."""
    group, time = q.shape[1] // k.shape[1], q.shape[2]
    scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) / math.sqrt(q.shape[-1])
    place = torch.arange(time)
    seen = place[:, None] >= place
    if window:
        seen = seen & (place[:, None] - place < window)
    if starts is not None:
        sequence = torch.searchsorted(starts, place, right=True)
        seen = seen & (sequence[:, None] == sequence)
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v.repeat_interleave(group, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("time, heads, kv_heads, window, starts", [
    (1, 2, 2, 0, None), (63, 3, 1, 0, None), (130, 4, 2, 0, None), (300, 2, 1, 70, None), (200, 2, 2, 1, None),
    (150, 6, 3, 0, [0, 1, 65, 149]), (150, 6, 2, 20, [0, 90])])
def test_attention(dtype, time, heads, kv_heads, window, starts):
    """Fails if a query attends to a later key, a key outside of its window or another sequence."""
    first = None if starts is None else torch.tensor(starts)
    q = made(2, heads, time, 16, dtype=dtype)
    k, v = (made(2, kv_heads, time, 16, dtype=dtype) for _ in range(2))
    compare(lambda q, k, v: ops.training_attention(q, k, v, 0.25, window, first),
            lambda q, k, v: attention(q, k, v, window, first), q, k, v, scale=2)


def test_attention_over_many_keys():
    """Fails if the softmax is not carried over from chunk to chunk of keys."""
    q, k, v = (made(1, 1, 700, 32) for _ in range(3))
    compare(lambda q, k, v: ops.training_attention(q, k, v, 1 / math.sqrt(32)),
            lambda q, k, v: attention(q, k, v, 0, None), q, k, v, scale=2)


def test_attention_of_transposed_heads():
    """Fails if strides are ignored."""
    q, k, v = (torch.randn(2, 40, heads, 16, requires_grad=True) for heads in (4, 2, 2))
    compare(lambda *given: ops.training_attention(*(x.transpose(1, 2) for x in given), 0.25),
            lambda *given: attention(*(x.transpose(1, 2) for x in given), 0, None), q, k, v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_linear(dtype, bias):
    given = [made(3, 5, 24, dtype=dtype), made(40, 24, dtype=dtype)] + [made(40, dtype=dtype)] * bias
    compare(ops.training_linear, functional.linear, *given, scale=5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [0, 2])
def test_gated_linear(dtype, bias, activation):
    def reference(gate_up, weight, *more):
        gate, up = gate_up.chunk(2, -1)
        # The op rounds the activation to its dtype before the product.
        inner = ACTIVATIONS[activation](gate) * up
        return functional.linear(inner + (inner.detach().to(dtype).double() - inner.detach()), weight, *more)

    given = [made(3, 5, 48, dtype=dtype), made(40, 24, dtype=dtype)] + [made(40, dtype=dtype)] * bias
    compare(lambda gate_up, weight, *more: ops.training_gated_linear(gate_up, activation, weight, *more), reference, *given, scale=8)


def test_linear_with_frozen_weight():
    x, weight = on(made(6, 8, dtype=torch.bfloat16)), on(made(4, 8, dtype=torch.bfloat16, grad=False))
    ops.training_linear(x, weight).sum().backward()
    assert weight.grad is None and x.grad.shape == x.shape


def cross_entropy(hidden, weight, labels, ignore_index=-100, divisor=0.0, softcap=0.0):
    logits = hidden.reshape(-1, hidden.shape[-1]) @ weight.T
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    total = functional.cross_entropy(logits, labels.reshape(-1), ignore_index=ignore_index, reduction="sum")
    return total / (divisor or (labels != ignore_index).sum())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ignored, divisor, softcap", [(0, 0.0, 0.0), (5, 0.0, 0.0), (3, 70.0, 4.0)])
def test_linear_cross_entropy(dtype, ignored, divisor, softcap):
    labels = torch.randint(0, 101, (3, 7))
    labels.view(-1)[torch.randperm(21)[:ignored]] = -100
    compare(lambda hidden, weight: ops.training_linear_cross_entropy(hidden, weight, on(labels), -100, divisor, softcap),
            lambda hidden, weight: cross_entropy(hidden, weight, labels, -100, divisor, softcap),
            made(3, 7, 24, dtype=dtype), made(101, 24, dtype=dtype), scale=4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_cross_entropy_in_chunks(dtype):
    """Fails if a chunk overwrites the gradient of the weight, or uses another chunk's labels."""
    vocab, rows = 1 << 17, 150  # a chunk has 128 rows
    labels = torch.randint(0, vocab, (rows,))
    labels[140] = -100
    compare(lambda hidden, weight: ops.training_linear_cross_entropy(hidden, weight, on(labels)),
            lambda hidden, weight: cross_entropy(hidden, weight, labels),
            made(rows, 4, dtype=dtype), made(vocab, 4, dtype=dtype))


def test_linear_cross_entropy_without_labels_that_count():
    hidden, weight = on(made(4, 8)), on(made(5, 8))
    loss = ops.training_linear_cross_entropy(hidden, weight, on(torch.full((4,), -100)), -100, 2.0)
    loss.backward()
    assert loss.item() == 0 and hidden.grad.abs().sum() == 0 and weight.grad.abs().sum() == 0
    assert math.isnan(ops.training_linear_cross_entropy(hidden, weight, on(torch.full((4,), -100))).item())


@pytest.mark.skipif(DEVICE != "cpu", reason="other devices multiply with torch's ops")
def test_linear_in_autocast():
    """Fails if autocast casts the float32 products inside the op back to bfloat16."""
    x, weight = made(9, 64, dtype=torch.bfloat16), made(33, 64, dtype=torch.bfloat16)
    plain = torch.ops.anyaccel._training_linear_forward(x.detach(), weight.detach(), None)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.ops.anyaccel._training_linear_forward(x.detach(), weight.detach(), None).equal(plain)


def test_linear_cross_entropy_scaled():
    """Fails if the gradient of the loss is ignored."""
    hidden, weight, labels = on(made(4, 8)), on(made(5, 8)), on(torch.tensor([0, 1, 2, 3]))
    first = torch.autograd.grad(ops.training_linear_cross_entropy(hidden, weight, labels), (hidden, weight))
    second = torch.autograd.grad(3 * ops.training_linear_cross_entropy(hidden, weight, labels), (hidden, weight))
    for one, three in zip(first, second):
        torch.testing.assert_close(3 * one, three)


@pytest.mark.skipif(DEVICE != "cpu", reason="gradcheck needs float64 kernels, which are tested on the CPU")
def test_gradients():
    """Compare gradients with finite differences in float64."""
    def made64(*shape):
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    check = torch.autograd.gradcheck
    assert check(lambda x, w: ops.training_rms_norm(x, w, 1e-3, True), (made64(3, 5), made64(5)))
    assert check(lambda x, r, w: ops.training_add_rms_norm(x, r, w, 1e-3), (made64(3, 6), made64(3, 6), made64(6)))
    for activation in range(5):
        assert check(lambda x: ops.training_gated_activation(x, activation), made64(3, 2 * 5))
    assert check(lambda x, w, b: ops.training_gated_linear(x, 1, w, b), (made64(3, 8), made64(5, 4), made64(5)))
    angles = torch.rand(3, 2, dtype=torch.float64)
    assert check(lambda x: ops.training_rotary_split(x, angles.cos(), angles.sin(), 2, 1), made64(2, 3, 4 * 6))
    starts = torch.tensor([0, 2])
    assert check(lambda q, k, v: ops.training_attention(q, k, v, 0.3, 3, starts), (made64(1, 2, 7, 16), made64(1, 1, 7, 16), made64(1, 1, 7, 16)))
    labels = torch.tensor([0, -100, 6])
    assert check(lambda h, w: ops.training_linear_cross_entropy(h, w, labels, -100, 0.0, 2.0), (made64(3, 4), made64(7, 4)))


@pytest.mark.skipif(DEVICE != "cpu", reason="threads are torch's threads on the CPU")
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits(dtype):
    """Fails if results depend on timing, or those of row-wise ops on the number of threads."""
    def results(threads):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        x, residual, weight, gate = made(200, 96, dtype=dtype), made(200, 96, dtype=dtype), made(96, dtype=dtype), made(100, 192, dtype=dtype)
        q, k, v = made(2, 6, 130, 16, dtype=dtype), made(2, 3, 130, 16, dtype=dtype), made(2, 3, 130, 16, dtype=dtype)
        hidden, head = made(50, 16, dtype=dtype), made(1000, 16, dtype=dtype)
        rows = [*ops.training_add_rms_norm(x, residual, weight), ops.training_gated_activation(gate, 0)]
        torch.autograd.backward(rows, [torch.ones_like(row) for row in rows])
        out = ops.training_attention(q, k, v, 0.25)
        out.sum().backward()
        loss = ops.training_linear_cross_entropy(hidden, head, torch.arange(50))
        loss.backward()
        return [*rows, x.grad, weight.grad, gate.grad], [out, q.grad, k.grad, v.grad, loss, hidden.grad, head.grad]

    try:
        two, again, one = results(2), results(2), results(1)
    finally:
        torch.set_num_threads(2)
    for first, second in zip(two[0] + two[1], again[0] + again[1]):
        assert first.equal(second)
    for first, second in zip(two[0], one[0]):
        assert first.equal(second)


@pytest.mark.parametrize("call, text", [
    (lambda: ops.training_rms_norm(on(made(3, 4)), on(made(5))), "shape of weight does not match x"),
    (lambda: ops.training_add_rms_norm(on(made(3, 4)), on(made(4, 3)), on(made(4))), "shape of residual differs"),
    (lambda: ops.training_rms_norm(on(torch.ones(3, 4).int()), on(torch.ones(4).int())), "dtype is not supported"),
    (lambda: ops.training_gated_activation(on(made(3, 5))), "cannot be halved"),
    (lambda: ops.training_gated_activation(on(made(3, 4)), 5), "unknown activation; got 5"),
    (lambda: ops.training_rotary_split(on(made(1, 2, 30)), on(made(2, 1, grad=False)), on(made(2, 1, grad=False)), 2, 1), "cannot be split"),
    (lambda: ops.training_rotary_split(on(made(1, 2, 32)), on(made(2, 5, grad=False)), on(made(2, 5, grad=False)), 2, 1), "tables do not match"),
    (lambda: ops.training_rotary_split(on(made(1, 2, 32)), on(made(2, 4)), on(made(2, 4)), 2, 1), "requires a gradient"),
    (lambda: ops.training_attention(on(made(1, 3, 4, 16)), on(made(1, 2, 4, 16)), on(made(1, 2, 4, 16)), 1.0), "do not match"),
    (lambda: ops.training_attention(*(on(made(1, 1, 4, 8)) for _ in range(3)), 1.0), "head dimension is not supported; got 8"),
    (lambda: ops.training_attention(*(on(made(1, 1, 4, 16)) for _ in range(3)), 1.0, 0, torch.tensor([1])), "invalid starts; got 1"),
    (lambda: ops.training_attention(*(on(made(1, 1, 4, 16)) for _ in range(3)), 1.0, 0, torch.tensor([0, 4])), "invalid starts; got 4"),
    (lambda: ops.training_attention(*(on(made(1, 1, 4, 16)) for _ in range(3)), 1.0, -1), "window is out of range; got -1"),
    (lambda: ops.training_linear_cross_entropy(on(made(2, 4)), on(made(3, 4)), on(torch.tensor([0, 3]))), "outside the vocabulary; got 3"),
    (lambda: ops.training_linear_cross_entropy(on(made(2, 4)), on(made(3, 4)), on(torch.tensor([0]))), "labels do not match"),
    (lambda: ops.training_linear_cross_entropy(on(made(2, 4)), on(made(3, 5)), on(torch.tensor([0, 1]))), "shape of weight does not match"),
])
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()
