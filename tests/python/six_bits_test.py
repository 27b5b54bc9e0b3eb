"""Linear layers with six-bit weights, called as in DeepSpeed's inference v2 and compared in float64
with products of the values that the weights represent.
"""

import math

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
core = accelerator.create_op_builder("InferenceCoreBuilder").load()
ops = torch.ops.anyaccel
NUMBERS = torch.tensor([sign * (mantissa / 16 if exponent == 0 else (4 + mantissa) * 2.0**(exponent - 5))
                        for sign in (1, -1) for exponent in range(8) for mantissa in range(4)])
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the checked shapes do not depend on the device")


def random_weights(tokens, outputs, inputs, seed=3):
    """Return random inputs, float16 weights that six bits represent exactly, and scales."""
    numbers = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, inputs, generator=numbers).half()
    weight = NUMBERS[torch.randint(64, (outputs, inputs), generator=numbers)].half()
    return x, weight, (0.001 + torch.rand(outputs, 1, generator=numbers) / 100).half()


def multiplied(x, packed, scale, outputs, out=None):
    tokens, inputs = x.shape
    out = torch.full((tokens, outputs), math.nan, dtype=torch.half, device=DEVICE) if out is None else out
    workspace = torch.empty(3, outputs, tokens, device=DEVICE)
    core.cuda_wf6af16_linear(out, x.to(DEVICE), *packed, scale.to(DEVICE), workspace, outputs, tokens, inputs, 3)
    return out.cpu()


# Few and many tokens use different kernels, which process tiles of outputs. The kernel for few
# tokens uses tiles of 64 outputs for small numbers of inputs, and of 4 outputs for the largest
# number below.
@pytest.mark.parametrize("outputs, inputs", [(256, 64), (1, 64), (5, 192), (301, 320), (9, 17024), (130, 8192)])
def test_products(outputs, inputs):
    """Fails if a code is decoded incorrectly, a tile of outputs is skipped, or a scale is applied
    to the wrong row. The error bound is too tight for sums that are accumulated in float16.
    """
    x, weight, scale = random_weights(40, outputs, inputs)
    packed = core.preprocess_weight(weight.to(DEVICE))
    assert [(each.dtype, each.shape, each.device.type) for each in packed] == [
        (torch.uint8, (outputs * inputs // part,), torch.device(DEVICE).type) for part in (4, 2)]
    want = x.double() @ (weight.double() * scale.double()).t()
    for tokens in (0, 1, 2, 3, 16, 17, 40):
        got = multiplied(x[:tokens], packed, scale, outputs)
        assert torch.allclose(got.double(), want[:tokens], rtol=6e-4, atol=1e-4), (got.double() - want[:tokens]).abs().max()


def test_empty_inputs_and_strides():
    """Fails if a matrix product whose inner dimension is 0 returns uninitialized memory, or strides
    are ignored.
    """
    none = core.preprocess_weight(torch.zeros(3, 0, dtype=torch.half, device=DEVICE))
    assert multiplied(torch.zeros(2, 0, dtype=torch.half), none, torch.ones(3, dtype=torch.half), 3).tolist() == [[0] * 3] * 2
    x, weight, scale = random_weights(20, 64, 128)
    turned = core.preprocess_weight(weight.t().contiguous().t().to(DEVICE))
    packed = core.preprocess_weight(weight.to(DEVICE))
    assert all(torch.equal(a, b) for a, b in zip(turned, packed))
    for tokens in (5, 20):
        want = multiplied(x[:tokens], packed, scale, 64)
        big = torch.zeros(64, tokens, dtype=torch.half, device=DEVICE)
        assert torch.equal(multiplied(x.t().contiguous().t()[:tokens], packed, scale, 64, big.t()), want)
        assert torch.equal(big.t().cpu(), want)


def six(outputs=4, inputs=64):
    return core.preprocess_weight(torch.zeros(outputs, inputs, dtype=torch.half, device=DEVICE))


def call(out=(2, 4), x=(2, 64), packed=None, scale=4, sizes=(4, 2, 64), dtype=torch.half):
    made = lambda *shape: torch.zeros(*shape, dtype=dtype, device=DEVICE)  # noqa: E731
    return core.cuda_wf6af16_linear(made(*out), made(*x), *(packed or six()), made(scale), None, *sizes, 1)


@pytest.mark.parametrize("refused, text", [
    (lambda: core.preprocess_weight(torch.zeros(4, 68, dtype=torch.half, device=DEVICE)), "inputs is not a multiple of 64"),
    (lambda: core.preprocess_weight(torch.zeros(4, 64, device=DEVICE)), "the weight has the wrong shape or dtype"),
    (lambda: core.preprocess_weight(torch.zeros(64, dtype=torch.half, device=DEVICE)), "the weight has the wrong shape or dtype"),
    *((lambda bad=bad: core.preprocess_weight(torch.full((4, 64), bad, dtype=torch.half, device=DEVICE)), "not representable in FP6; got " + str(bad))
      for bad in (0.03125, -30.0, math.inf, math.nan)),
    (lambda: call(sizes=(4, 2, 68)), "the sizes are out of range"),
    (lambda: call(sizes=(4, -2, 64)), "the sizes are out of range"),
    (lambda: call(out=(2, 5)), "the result or the inputs have the wrong shape or dtype"),
    (lambda: call(x=(3, 64)), "the result or the inputs have the wrong shape or dtype"),
    (lambda: call(dtype=torch.float), "the result or the inputs have the wrong shape or dtype"),
    (lambda: call(packed=six(5)), "the weights have the wrong size or dtype"),
    (lambda: call(packed=six()[::-1]), "the weights have the wrong size or dtype"),
    (lambda: call(scale=3), "the scales have the wrong size or dtype"),
])
def test_invalid_arguments_raise_value_error(refused, text):
    """Fails if an invalid argument causes an access outside a tensor instead of a ValueError."""
    with pytest.raises((ValueError, RuntimeError) if DEVICE != "cpu" else ValueError, match=text):
        refused()


@HOST
def test_opcheck_and_meta_tensors():
    """Check schemas and mutations with torch's opcheck, and that meta tensors give the same shapes,
    dtypes and errors as host tensors.
    """
    for tokens in (3, 20):
        x, weight, scale = random_weights(tokens, 128, 192)
        packed = core.preprocess_weight(weight)
        torch.library.opcheck(ops.inference_core_preprocess_weight.default, (weight,))
        torch.library.opcheck(ops.inference_core_wf6af16_linear.default, (torch.zeros(tokens, 128).half(), x, *packed, scale, 128, tokens, 192))
    meta = core.preprocess_weight(weight.to("meta"))
    assert [(each.shape, each.dtype) for each in meta] == [(each.shape, each.dtype) for each in packed]
    with pytest.raises(ValueError, match="the scales have the wrong size or dtype"):
        ops.inference_core_wf6af16_linear(torch.zeros(20, 128).half().to("meta"), x.to("meta"), *meta, scale[1:].to("meta"), 128, 20, 192)


@HOST
def test_tensors_of_other_devices_are_rejected():
    """Fails if the address of a tensor on another device is read as host memory."""
    x, weight, scale = random_weights(2, 128, 192)
    packed = core.preprocess_weight(weight)
    with pytest.raises((ValueError, NotImplementedError)):
        core.cuda_wf6af16_linear(torch.zeros(2, 128).half(), x.to("meta"), *packed, scale, None, 128, 2, 192, 1)
