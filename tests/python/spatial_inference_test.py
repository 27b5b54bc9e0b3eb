"""Bias additions to channels-last activations, compared with torch's sums. DS_ACCELERATOR selects
the accelerator.
"""

import random

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
spatial = accelerator.create_op_builder("SpatialInferenceBuilder").load()
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad)


def plain(activation, bias, other=None, other_bias=None):
    """Reference that adds in the op's order, in float32 or float64, and rounds once."""
    wide = torch.float64 if activation.dtype == torch.float64 else torch.float32
    shape = (1, -1, 1, 1) if activation.dim() == 4 else (-1,)
    out = activation.to(wide) if other is None else activation.to(wide) + other.to(wide)
    added = bias.to(wide) if other_bias is None else bias.to(wide) + other_bias.to(wide)
    return (out + added.view(shape)).to(activation.dtype)


def calls(activation, bias, other, other_bias):
    return (spatial.nhwc_bias_add(activation, bias), spatial.nhwc_bias_add_add(activation, bias, other),
            spatial.nhwc_bias_add_bias_add(activation, bias, other, other_bias))


def shapes(rng):
    channels = rng.choice((1, 3, 8, 31, 64, 255, 256, 257, 1000))
    return rng.choice(((channels,), (5, channels), (2, rng.randint(0, 40), channels), (0, 3, channels), (2, channels, 3, 5),
                       (rng.randint(0, 2), channels, 1, rng.randint(1, 70)), (1, channels, 40, 50), (2, 2, 3, 2, channels)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_biases_are_added(dtype):
    """Fails if an element gets another channel's bias, the last elements are skipped, or a sum is
    rounded twice. Some cases have different strides.
    """
    rng = random.Random(3)
    for case in range(60):
        shape = shapes(rng)
        activation, other = (torch.randn(shape).to(dtype) for _ in range(2))
        bias, other_bias = (torch.randn(shape[1] if len(shape) == 4 else shape[-1]).to(dtype) for _ in range(2))
        given = [activation, bias, other, other_bias]
        if len(shape) == 4 and case % 2 == 0:
            given = [activation.to(memory_format=torch.channels_last), bias, other.to(memory_format=torch.channels_last), other_bias]
        elif case % 3 == 1:
            given = [x.unsqueeze(-1).repeat_interleave(2, -1)[..., 0] for x in given]
        got = calls(*map(on, given))
        for mine, want in zip(got, (plain(activation, bias), plain(activation, bias, other), plain(activation, bias, other, other_bias))):
            assert mine.dtype == dtype and torch.equal(mine.cpu(), want), (case, shape)
            assert mine.is_contiguous(memory_format=torch.channels_last if len(shape) == 4 else torch.contiguous_format)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_do_not_spread(dtype):
    """Fails if infinity or NaN is lost, or affects other elements."""
    activation = torch.zeros(2, 7, 5, dtype=dtype)
    activation[0, 1, 2], activation[1, 3, 4], activation[1, 6, 0] = torch.nan, torch.inf, -torch.inf
    bias = torch.tensor([0, 1, 2, 3, torch.inf], dtype=dtype)
    got = spatial.nhwc_bias_add(on(activation), on(bias)).cpu()
    torch.testing.assert_close(got, activation + bias, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 4, 3, 2), (4,)])
def test_gradients(shape):
    """Check first and second derivatives of each function with torch's gradcheck."""
    channels = 4
    leaves = [on(torch.randn(size, dtype=torch.float64, requires_grad=True)) for size in (shape, (channels,), shape, (channels,))]
    assert torch.autograd.gradcheck(spatial.nhwc_bias_add, leaves[:2])
    assert torch.autograd.gradcheck(spatial.nhwc_bias_add_add, leaves[:3])
    assert torch.autograd.gradcheck(spatial.nhwc_bias_add_bias_add, leaves)
    assert torch.autograd.gradgradcheck(spatial.nhwc_bias_add_bias_add, leaves)
    # In each step, exactly one input requires gradients.
    for number in range(4):
        given = [x if i == number else x.detach() for i, x in enumerate(leaves)]
        out = spatial.nhwc_bias_add_bias_add(*given)
        grad, = torch.autograd.grad(out, given[number], torch.ones_like(out))
        assert torch.equal(grad.cpu(), torch.full_like(grad.cpu(), out.numel() / grad.numel()))


@HOST
def test_bits_do_not_depend_on_threads():
    """Fails if a thread that starts in the middle of the channels uses the wrong biases, or the
    last elements are skipped. (tests/unit/ops compares the instruction sets.)
    """
    activation, bias = torch.randn(3, 211, 773), torch.randn(773)
    torch.set_num_threads(1)
    one = spatial.nhwc_bias_add(activation, bias)
    for threads in (2, 3, 5):
        torch.set_num_threads(threads)
        assert torch.equal(spatial.nhwc_bias_add(activation, bias), one)
    torch.set_num_threads(2)


X, B = torch.zeros(2, 5, 4), torch.zeros(4)


@HOST
@pytest.mark.parametrize("call", [
    lambda: spatial.nhwc_bias_add(X, torch.zeros(5)),
    lambda: spatial.nhwc_bias_add(X, B[None]),
    lambda: spatial.nhwc_bias_add(X, B.half()),
    lambda: spatial.nhwc_bias_add(X.int(), B.int()),
    lambda: spatial.nhwc_bias_add(X[None], B),
    lambda: spatial.nhwc_bias_add(torch.tensor(1.0), B),
    lambda: spatial.nhwc_bias_add_add(X, B, X[:1]),
    lambda: spatial.nhwc_bias_add_add(X, B, X.double()),
    lambda: spatial.nhwc_bias_add_bias_add(X, B, X, B[:3]),
])
def test_errors(call):
    """Fails if an invalid argument causes a read outside a tensor instead of a ValueError."""
    with pytest.raises(ValueError, match="; got .*, want "):
        call()


@HOST
def test_opcheck():
    """Fails if torch cannot trace an op, or the meta kernel reports different strides."""
    for shape in ((2, 5, 4), (2, 4, 3, 5)):
        x, other = (torch.randn(shape, requires_grad=True) for _ in range(2))
        b, c = (torch.randn(4, requires_grad=True) for _ in range(2))
        op = torch.ops.anyaccel
        torch.library.opcheck(op.nhwc_bias_add.default, (x, b))
        torch.library.opcheck(op.nhwc_bias_add_add.default, (x, b, other))
        torch.library.opcheck(op.nhwc_bias_add_bias_add.default, (x, b, other, c))
        torch.library.opcheck(op._nhwc_bias_add.default, (x, b, None, None))
    compiled = torch.compile(spatial.nhwc_bias_add_bias_add, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, b, other, c), spatial.nhwc_bias_add_bias_add(x, b, other, c))
