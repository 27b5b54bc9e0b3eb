"""FusedAdam, FusedLion and FusedLamb on host memory, called as in DeepSpeed's Python code."""

import math

import pytest
import torch

import anyaccel

load = lambda name: anyaccel.get_accelerator().create_op_builder(name).load()  # noqa: E731
ADAM, LION, LAMB = load("FusedAdamBuilder"), load("FusedLionBuilder"), load("FusedLambBuilder")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FLAG = torch.zeros(1, dtype=torch.int32)


def lists(dtype, states, sizes=(5, 0, 40_000, 333)):
    generator = torch.Generator().manual_seed(0)
    make = lambda: [torch.randn(n, generator=generator).to(dtype) for n in sizes]  # noqa: E731
    return [make(), make(), *([torch.zeros(n, dtype=dtype) for n in sizes] for _ in range(states))]


# Fails if the order of lists or arguments differs from DeepSpeed's, or a step differs from Adam's
# formula.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", [0, 1])
def test_adam(dtype, mode):
    g, p, m, v = lists(dtype, 2)
    q = [torch.nn.Parameter(x.float()) for x in p]
    for x, y in zip(q, g):
        x.grad = y.float()
    (torch.optim.AdamW if mode else torch.optim.Adam)(q, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1).step()
    ADAM.multi_tensor_adam(2048 * 32, FLAG, [g, p, m, v], 1e-2, 0.9, 0.99, 1e-8, 1, mode, 1, 0.1)
    for x, y in zip(p, q):
        torch.testing.assert_close(x, y.data.to(dtype), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-5)


# Fails if parameters that require gradients, which FusedAdam passes for bfloat16, are rejected.
def test_adam_accepts_parameters():
    p = torch.nn.Parameter(torch.ones(10, dtype=torch.bfloat16))
    g = torch.ones_like(p)
    ADAM.multi_tensor_adam(65536, FLAG, [[g], [p], [torch.zeros_like(p)], [torch.zeros_like(p)]], 0.5, 0.9, 0.99, 0.0, 1, 1,
                           1, 0.0)
    assert p.eq(0.5).all() and p.is_leaf and p.requires_grad


@pytest.mark.parametrize("dtype", DTYPES)
def test_lion(dtype):
    g, p, m = lists(dtype, 1)
    expected = [x.float() * (1 - 1e-3) - 1e-2 * y.float().sign() for x, y in zip(p, g)]
    LION.multi_tensor_lion(65536, FLAG, [g, p, m], 1e-2, 0.9, 0.99, 1, 0.1)
    for x, y in zip(p, expected):
        torch.testing.assert_close(x, y.to(dtype), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-5)


def plain_lamb(p, m, v, g, lr, b1, b2, high, low, eps, scale, step, mode, bias, decay):
    g = g.double() / scale
    m, v = b1 * m.double() + (1 - b1) * g, b2 * v.double() + (1 - b2) * g * g
    u = m / ((v + eps).sqrt() if mode == 0 else v.sqrt() + eps) + decay * p.double()
    weight, update = p.double().norm().item(), u.norm().item()
    ratio = min(max(weight / update, low), high) if weight and update else 1.0
    rate = lr * math.sqrt(1 - b2**step) / (1 - b1**step) if bias else lr
    return p.double() - rate * ratio * u, m, v, ratio


# Fails if a step differs from LAMB's formula, or the copy in another dtype is wrong.
@pytest.mark.parametrize("n", [1, 17, 5000, 100_003])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("grad", DTYPES)
def test_lamb(n, mode, grad):
    torch.manual_seed(n)
    p, g = torch.randn(n), torch.randn(n).to(grad)
    m, v = torch.randn(n) * 0.1, torch.rand(n)
    copy = torch.tensor([]) if grad == torch.float32 else torch.zeros(n, dtype=grad)
    for bias in (0, 1):
        numbers = (1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 2.0, 3, mode, bias, 0.1)
        q, mm, vv, ratio = plain_lamb(p, m, v, g, *numbers)
        answer = LAMB.lamb(p, copy, m, v, g, *numbers)
        assert answer.shape == (1,) and answer.item() == pytest.approx(ratio, rel=1e-5)
        for x, y in ((p, q), (m, mm), (v, vv)):
            torch.testing.assert_close(x.double(), y, rtol=1e-5, atol=1e-6)
        if copy.numel():
            assert torch.equal(copy, p.to(grad))


# Fails if the bounds of the trust ratio are ignored, or a zero tensor gets a ratio other than 1.
def test_lamb_bounds():
    numbers = lambda high, low: (1e-2, 0.9, 0.99, high, low, 1e-6, 1.0, 1, 1, 1, 0.0)  # noqa: E731
    state = lambda: (torch.zeros(8), torch.zeros(8), torch.ones(8))  # noqa: E731
    assert LAMB.lamb(torch.ones(8) * 1e3, torch.tensor([]), *state(), *numbers(7.0, 0.1)).item() == 7
    assert LAMB.lamb(torch.ones(8) * 1e-6, torch.tensor([]), *state(), *numbers(7.0, 0.5)).item() == 0.5
    assert LAMB.lamb(torch.zeros(8), torch.tensor([]), *state(), *numbers(7.0, 0.5)).item() == 1


def test_invalid_arguments():
    g, p, m, v = lists(torch.float32, 2)
    before = [x.clone() for x in p]
    for call in (lambda: ADAM.multi_tensor_adam(1, FLAG, [g[:1], p, m, v], 1e-2, 0.9, 0.99, 1e-8, 1, 1, 1, 0.1),
                 lambda: ADAM.multi_tensor_adam(1, FLAG, [g, p, m, v], 1e-2, 0.9, 0.99, 1e-8, 1, 2, 1, 0.1),
                 lambda: ADAM.multi_tensor_adam(1, FLAG, [g, p, m, v[:3] + [v[0]]], 1e-2, 0.9, 0.99, 1e-8, 1, 1, 1, 0.1),
                 lambda: LION.multi_tensor_lion(1, FLAG, [g, p, m[:1]], 1e-2, 0.9, 0.99, 1, 0.1),
                 lambda: LAMB.lamb(p[0], torch.tensor([]), m[0], v[0], g[3], 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 1.0, 1, 1, 1, 0.1),
                 lambda: LAMB.lamb(p[0], torch.tensor([]), m[0], v[0], g[0], 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 0.0, 1, 1, 1, 0.1),
                 lambda: LAMB.lamb(p[0], torch.tensor([]), m[0], v[0], g[0], 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 1e-60, 1, 1, 1, 0.1),
                 lambda: LAMB.lamb(p[0], torch.tensor([]), m[0], v[0], g[0], 1e-2, 0.9, 0.99, 0.1, 0.2, 1e-6, 1.0, 1, 1, 1, 0.1),
                 lambda: LAMB.lamb(p[0], torch.tensor([]), m[0], v[0], g[0], 1e-2, 0.9, 0.99, math.nan, 0.2, 1e-6, 1.0, 1, 1, 1, 0.1)):
        with pytest.raises(ValueError, match="got.*want"):
            call()
    assert all(torch.equal(a, b) for a, b in zip(p, before))


# Fails if a schema does not declare a mutation, or a meta kernel does not match its op.
def test_opcheck():
    g, p, m, v = lists(torch.float32, 2, (32, 7))
    torch.library.opcheck(torch.ops.anyaccel.multi_tensor_adam.default,
                          (1, FLAG, g, p, m, v, 1e-2, 0.9, 0.99, 1e-8, 1, 1, 1, 0.1))
    torch.library.opcheck(torch.ops.anyaccel.multi_tensor_lion.default, (1, FLAG, g, p, m, 1e-2, 0.9, 0.99, 1, 0.1))
    torch.library.opcheck(torch.ops.anyaccel.lamb.default,
                          (p[0], torch.empty(0), m[0], v[0], g[0], 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 1.0, 1, 1, 1, 0.1))
