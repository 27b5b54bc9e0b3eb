"""The op transformer_layer, compared with a layer composed of torch's operations. DS_ACCELERATOR
selects the accelerator.
"""

import math
import os
import random

import pytest
import torch

from plain_transformer import DEVICE, NAMES, compare, on, parameters, plain


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("shape", [(2, 40, 64, 4, 128), (2, 70, 30, 3, 50), (1, 300, 64, 2, 96)])
def test_matches_plain_layer(shape, pre, dtype):
    """Covers heads that are read in place, odd head sizes, and more keys than fit in one chunk."""
    compare(*shape, dtype, pre_layer_norm=pre, gelu_approximate="tanh" if pre else "none", eps=1e-5)


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("rows", [(1, 1), (1, 32), (3, 7), (2, 32), (1, 65)])
def test_skinny_gemm(rows, pre):
    """Fails if a matrix product of few rows is wrong. The row counts include the largest that the
    kernel for few rows handles, and the next one.
    """
    compare(*rows, 96, 3, 160, torch.float32, pre_layer_norm=pre, eps=1e-5)
    compare(*rows, 96, 3, 144, torch.float32, pre_layer_norm=pre, eps=1e-5)


def test_gradients_do_not_share_storage():
    """Fails if two gradients share storage. Saving one would save the whole storage, and changing
    one would change the other.
    """
    weights = [on(tensor) for tensor in parameters(64, 128, torch.float32)]
    torch.ops.anyaccel.transformer_layer(on(torch.randn(1, 8, 64)), None, *weights, 4).sum().backward()
    before = [weight.grad.clone() for weight in weights]
    for weight, grad in zip(weights, before):
        assert weight.grad.untyped_storage().nbytes() == weight.numel() * weight.element_size()
        weight.grad.add_(1)
        torch.testing.assert_close(weight.grad, grad + 1, rtol=0, atol=0)
        weight.grad = None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pre", [False, True])
def test_dropouts(pre, dtype):
    """Fails if the forward or backward pass uses a different mask than `kept`, or scales it
    differently.
    """
    compare(2, 67, 32, 2, 40, dtype, pre_layer_norm=pre, attn_dropout=0.3, hidden_dropout=0.2, seed=7)
    compare(1, 20, 32, 2, 40, dtype, pre_layer_norm=pre, attn_dropout=0.3)
    compare(1, 20, 32, 2, 40, dtype, pre_layer_norm=pre, hidden_dropout=0.3)


@pytest.mark.parametrize("pre", [False, True])
def test_masks(pre):
    """Compare float and bool masks of keys, pairs and heads. They contain the lowest value and
    minus infinity, and mask all keys of some rows and entries.
    """
    few = torch.zeros(2, 1, 1, 33).masked_fill(torch.rand(2, 1, 1, 33) < 0.4, -10000.0)
    least = torch.full((2, 1, 1, 33), torch.finfo(torch.float32).min)
    pairs = torch.rand(2, 1, 33, 33) < 0.5
    pairs[0, 0, 5] = False
    heads = torch.randn(4, 33, 33, dtype=torch.float64)
    nothing = torch.zeros(1, 1, 1, 33, dtype=torch.bool)
    for mask in (few, least, pairs, heads, nothing, few[0, 0, 0], least.to(torch.bfloat16)):
        compare(2, 33, 64, 4, 80, torch.float32, mask, pre_layer_norm=pre)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pre", [False, True])
def test_without_gradients(pre, dtype):
    """Fails if the path without gradients ignores the mask or swaps heads. This path stores nothing
    for backward, reuses memory, and may use torch's attention for bfloat16.
    """
    least = torch.zeros(2, 1, 1, 70)
    least[0, ..., 40:] = torch.finfo(torch.float32).min
    pairs = torch.rand(2, 1, 70, 70) < 0.5
    pairs[0, 0, 5] = False
    error = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    for hidden, heads in ((64, 4), (30, 3)):
        weights = [tensor.detach() for tensor in parameters(hidden, 96, dtype)]
        x = torch.randn(2, 70, hidden).to(dtype)
        for mask in (None, least, least.to(dtype), pairs, torch.zeros(70, dtype=torch.bool), torch.randn(heads, 70, 70)):
            out = torch.ops.anyaccel.transformer_layer(on(x), on(mask), *map(on, weights), heads, pre_layer_norm=pre)
            want = plain(x.double(), mask, [tensor.double() for tensor in weights], heads, pre_layer_norm=pre)
            torch.testing.assert_close(out.cpu().double(), want, rtol=error, atol=error)
    # More rows than fit in one block of the feed-forward part, and a short last block.
    weights = [tensor.detach() for tensor in parameters(16, 24, dtype)]
    x = torch.randn(17, 65, 16).to(dtype)
    out = torch.ops.anyaccel.transformer_layer(on(x), None, *map(on, weights), 2, pre_layer_norm=pre)
    want = plain(x.double(), None, [tensor.double() for tensor in weights], 2, pre_layer_norm=pre)
    torch.testing.assert_close(out.cpu().double(), want, rtol=error, atol=error)


@pytest.mark.parametrize("shape", [(0, 8, 32, 2, 64), (2, 0, 32, 2, 64), (1, 1, 16, 1, 1)])
def test_empty(shape):
    compare(*shape, torch.float32)


@pytest.mark.parametrize("pre", [False, True])
def test_checkpointing_gives_the_same_bits(pre):
    """Check that recomputed tensors equal those that were not stored."""
    weights = parameters(64, 96, torch.float32)
    x = torch.randn(2, 50, 64, requires_grad=True)

    def run(**options):
        there = [on(tensor) for tensor in (x, *weights)]
        out = torch.ops.anyaccel.transformer_layer(there[0], None, *there[1:], 4, attn_dropout=0.1, hidden_dropout=0.1,
                                                   seed=3, pre_layer_norm=pre, **options)
        return [tensor.cpu() for tensor in (out, *torch.autograd.grad(out.square().sum(), there))]

    want = run()
    for options in ({"gelu_checkpoint": True}, {"attn_dropout_checkpoint": True}, {"stochastic_mode": True}):
        assert all(a.equal(b) for a, b in zip(run(**options), want)), options
    for a, b in zip(run(normalize_invertible=True, gelu_checkpoint=True), want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def kept_bytes(**options):
    out = torch.ops.anyaccel._transformer_layer_forward(torch.randn(2, 32, 64), None, *parameters(64, 256, torch.float32),
                                                        2, attn_dropout=0.1, hidden_dropout=0.1, keep=True, **options)
    return sum(tensor.nbytes for tensor in out)


def test_checkpointing_stores_less():
    """Fails if an option does not reduce the stored bytes as documented, or a tensor of length x
    length is stored.
    """
    rows, hidden, inter = 2 * 32 * 4, 64, 256
    full = kept_bytes()
    assert full - kept_bytes(gelu_checkpoint=True) == rows * inter
    assert full - kept_bytes(normalize_invertible=True) == 2 * rows * hidden
    assert full - kept_bytes(pre_layer_norm=True, normalize_invertible=True) == rows * hidden
    statistics = 2 * 2 * 32 * 2 * 4 + 2 * rows * 2
    assert full == rows * (8 * hidden + 2 * inter) + statistics


@pytest.mark.skipif(torch.device(DEVICE).type == "cuda", reason="the check would synchronize with the device in each call")
def test_invertible_norm_rejects_zero_weights():
    weights = parameters(16, 16, torch.float32)
    with torch.no_grad():
        weights[NAMES.index("norm_w")][3] = 0
    call = [on(tensor) for tensor in (torch.ones(1, 2, 16), *weights)]
    with pytest.raises(ValueError, match="normalize_invertible cannot divide by norm_w"):
        torch.ops.anyaccel.transformer_layer(call[0], None, *call[1:], 2, normalize_invertible=True)


def test_strided_inputs():
    """Check strided inputs, weights and gradients."""
    weights = [on(tensor.detach().repeat_interleave(2, -1)[..., ::2]) for tensor in parameters(32, 48, torch.float32)]
    x = torch.randn(32, 20, 2).permute(2, 1, 0)
    leaf = on(x).requires_grad_()
    out = torch.ops.anyaccel.transformer_layer(leaf, None, *weights, 2)
    want = plain(x.double(), None, [tensor.cpu().double() for tensor in weights], 2)
    torch.testing.assert_close(out.detach().cpu().double(), want, rtol=2e-5, atol=2e-5)
    grad = on(torch.randn(32, 20, 2).permute(2, 1, 0))
    mine, = torch.autograd.grad(out, leaf, grad, retain_graph=True)
    right, = torch.autograd.grad(out, leaf, grad.contiguous())
    assert mine.cpu().equal(right.cpu())


@pytest.mark.parametrize("options", [{}, {"pre_layer_norm": True, "gelu_approximate": "tanh"},
                                     {"attn_dropout": 0.2, "hidden_dropout": 0.1, "gelu_checkpoint": True},
                                     {"pre_layer_norm": True, "normalize_invertible": True}])
def test_gradients(options):
    """Check the gradients with torch's gradcheck."""
    inputs = [on(tensor) for tensor in (torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True),
                                        *parameters(6, 7, torch.float64))]
    assert torch.autograd.gradcheck(
        lambda x, *weights: torch.ops.anyaccel.transformer_layer(x, None, *weights, 2, eps=1e-5, **options), inputs)


@pytest.mark.parametrize("options", [{}, {"pre_layer_norm": True, "normalize_invertible": True, "gelu_checkpoint": True}])
def test_opcheck(options):
    x = torch.randn(2, 9, 16, requires_grad=True)
    weights = parameters(16, 24, torch.float32)
    torch.library.opcheck(torch.ops.anyaccel.transformer_layer.default, (x, torch.zeros(2, 1, 1, 9), *weights, 2), options)
    forward = torch.ops.anyaccel._transformer_layer_forward.default
    plain_weights = [tensor.detach() for tensor in weights]
    for keep in (True, False):
        torch.library.opcheck(forward, (x.detach(), None, *plain_weights, 2), {"keep": keep, **options},
                              test_utils=("test_schema", "test_faketensor"))


def test_dropout_statistics():
    """Check the statistics of the random numbers: the fraction of dropped elements, independence of
    rows, columns, seeds and positions, and reproducibility.
    """
    def mask(ratio=0.1, seed=1, which=1, rows=512, columns=768):
        return torch.ops.anyaccel._transformer_layer_mask(ratio, seed, which, rows, columns)

    for ratio in (0.0, 0.1, 0.5, 0.999):
        count = 512 * 768
        dropped = count - int(mask(ratio).sum())
        assert abs(dropped - ratio * count) <= 5 * math.sqrt(count * ratio * (1 - ratio))
    base = mask(0.5)
    assert base.equal(mask(0.5))
    others = [mask(0.5, seed=2), mask(0.5, which=2), mask(0.5, seed=1 + 2**32), mask(0.5, seed=-1), base.roll(1, 0),
              base.roll(1, 1), base.roll(3, 0), base.roll(16, 1), base.flip(0), base.flip(1)]
    for other in others:
        same = (base == other).double().mean().item()
        assert abs(same - 0.5) < 5 * 0.5 / math.sqrt(base.numel() / 2), same
    for dim in (0, 1):  # no row or column is biased
        size = base.shape[dim]
        assert ((base.double().mean(dim) - 0.5).abs() < 6 * 0.5 / math.sqrt(size)).all()


@pytest.mark.parametrize("change, text", [
    ({"heads": 5}, "multiple of the number of heads"),
    ({"heads": 0}, "number of heads is out of range"),
    ({"attn_dropout": 1.0}, "attn_dropout is out of range"),
    ({"hidden_dropout": -0.5}, "hidden_dropout is out of range"),
    ({"eps": math.nan}, "eps is out of range"),
    ({"gelu_approximate": "erf"}, "unknown gelu_approximate"),
    ({"mask": torch.zeros(3, 1, 1, 8)}, "attention_mask has the wrong shape or dtype"),
    ({"mask": torch.zeros(8, dtype=torch.long)}, "attention_mask has the wrong shape or dtype"),
    ({"x": torch.zeros(2, 8)}, "not 3-dimensional"),
    ({"x": torch.zeros(2, 8, 16, dtype=torch.int32)}, "dtype of the input"),
    ({"x": torch.zeros(2, 8, 32)}, "attn_qkvw has the wrong shape"),
    ({"x": torch.zeros(2, 8, 16, dtype=torch.float64)}, "attn_qkvw has the wrong dtype"),
])
def test_errors(change, text):
    weights = parameters(16, 24, torch.float32)
    call = [on(tensor.detach()) for tensor in weights]
    options = {name: value for name, value in change.items() if name not in ("x", "mask")}
    with pytest.raises(ValueError, match=text):
        torch.ops.anyaccel.transformer_layer(on(change.get("x", torch.zeros(2, 8, 16))), on(change.get("mask")), *call,
                                             **{"heads": 2, **options})


def random_mask(rng, batch, heads, length):
    """Return None or a random bool or float mask for keys, pairs or heads, possibly strided."""
    shape = rng.choice([(batch, 1, 1, length), (batch, 1, length, length), (batch, heads, length, length), (1, heads, 1, length),
                        (length, length), (length,), (1, 1, length, 1)])
    seen = torch.rand(shape) < rng.choice([0.0, 0.5, 0.9])
    kind = rng.choice(["none", "bool", "least", "numbers", "gaps"])
    return {"none": None, "bool": seen, "least": torch.zeros(shape).masked_fill(~seen, -math.inf), "numbers": torch.randn(shape),
            "gaps": torch.randn(*shape, 2, dtype=torch.float64)[..., 0]}[kind]


def test_random_shapes():
    """Compare random combinations of all options. TRANSFORMER_CASES sets their number."""
    rng = random.Random(1)
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    for case in range(int(os.environ.get("TRANSFORMER_CASES", 12))):
        dtype = dtypes[case % 4]
        heads = rng.randint(1, 4)
        batch, length = (rng.randint(1, 3), rng.randint(1, 150)) if rng.random() < 0.9 else rng.choice([(0, 3), (2, 0), (1, 520)])
        # Norms over few columns amplify rounding errors.
        shape = (batch, length, heads * rng.randint(1 if dtype == torch.float64 else 8, 40), heads, rng.randint(1, 140))
        options = {"pre_layer_norm": rng.random() < 0.5, "gelu_checkpoint": rng.random() < 0.5,
                   "attn_dropout_checkpoint": rng.random() < 0.5, "stochastic_mode": rng.random() < 0.5,
                   # With 16-bit dtypes, this option recomputes the norms' inputs from results that
                   # are already rounded, so its error exceeds that of the other options.
                   "normalize_invertible": rng.random() < 0.5 and dtype.itemsize > 2,
                   "gelu_approximate": rng.choice(["none", "tanh"]), "eps": 1e-3, "seed": case,
                   "attn_dropout": rng.choice([0.0, 0.2]), "hidden_dropout": rng.choice([0.0, 0.2])}
        mask = random_mask(rng, batch, heads, length)
        try:
            compare(*shape, dtype, mask, **options)
        except AssertionError as error:
            raise AssertionError(f"case {case}: {shape}, {dtype}, {options}, {mask if mask is None else mask.shape}") from error
