"""Functions, test data and error bounds shared by the tests of DeepSpeed's injected inference
layers.
"""

import random

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
m = accelerator.create_op_builder("InferenceBuilder").load()
ops = torch.ops.anyaccel
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
DTYPES = list(NAMES)
# Each op rounds its result once. For float16, torch computes the matrix products, and may round
# intermediate results.
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
    """Return random numbers in float64, and the same tensor in the dtype, strided if `gaps` is set."""
    given = (torch.randn(*sizes) * scale).to(dtype)
    wide = given.double()
    if gaps and len(sizes) > 1:
        given = given.transpose(-1, -2).contiguous().transpose(-1, -2)
    return wide, given.to(DEVICE)


def context(given, dtype, mask=None, heads=4, kv=4, rotary=(0, False, False), triangular=True, window=None, layer=0, layers=2, alibi=None):
    return of("softmax_context", dtype)(given, NONE if mask is None else mask, *rotary, heads, kv if kv != heads else -1, given_norm(given, heads, kv), triangular,
                                        window is not None, window or 1, mask is None, layer, layers, NONE if alibi is None else alibi, 100.0, False, None, None)


def given_norm(given, heads, kv):
    return (given.shape[-1] // (heads + 2 * kv)) ** -0.25
