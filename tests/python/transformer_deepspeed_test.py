"""DeepSpeed's own transformer.py on AnyAccel's op modules, compared with the reference layer."""

import importlib
import importlib.util

import pytest
import torch

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401  (before DeepSpeed)
import plain_transformer as own  # noqa: E402
from anyaccel.ops._transformer_functions import Seeds  # noqa: E402

theirs = importlib.import_module("deepspeed.ops.transformer.transformer")


def make(weights, pre, fp16=False, **options):
    """Return DeepSpeed's layer with these parameters."""
    layer = theirs.DeepSpeedTransformerLayer(theirs.DeepSpeedTransformerConfig(**{
        "batch_size": 2, "hidden_size": 32, "intermediate_size": 48, "heads": 4, "attn_dropout_ratio": 0.0,
        "hidden_dropout_ratio": 0.0, "num_hidden_layers": 2, "initializer_range": 0.02, "pre_layer_norm": pre, "fp16": fp16,
        **options}))
    with torch.no_grad():
        for name, value in zip(own.NAMES, weights):
            setattr(layer, name, torch.nn.Parameter(value.detach().clone()))
    return layer


def compare(dtype, length, pre, attn_dropout=0.0, hidden_dropout=0.0, **options):
    """Compare the result and gradients of DeepSpeed's layer with the reference."""
    weights = own.parameters(32, 48, dtype)
    layer = make(weights, pre, fp16=dtype == torch.float16, attn_dropout_ratio=attn_dropout,
                 hidden_dropout_ratio=hidden_dropout, seed=40, **options)
    x, grad = torch.randn(2, length, 32).to(dtype).requires_grad_(), torch.randn(2, length, 32).to(dtype)
    mask = torch.zeros(2, 1, 1, length, dtype=dtype)
    mask[1, ..., length // 2:] = -10000
    out = layer(x, mask)
    out = out[0] if isinstance(out, tuple) else out
    out.backward(grad)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, *weights)]
    want = own.plain(exact[0], mask, exact[1:], 4, attn_dropout, hidden_dropout, seed=Seeds(40 + layer.config.layer_id).next(),
                     pre_layer_norm=pre, gelu_approximate="tanh")
    want.backward(grad.double())
    error = 1e-4 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(out.double(), want, rtol=error, atol=error)
    mine = [x.grad, *(getattr(layer, name).grad for name in own.NAMES)]
    for name, got, right in zip(["input", *own.NAMES], mine, exact):
        torch.testing.assert_close(got.double(), right.grad, rtol=error, atol=error * (1 + right.grad.abs().max().item()),
                                   msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("invertible", [False, True])
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_options(pre, invertible, gelu, checkpoint):
    """Fails if the order of arguments or results differs from that in DeepSpeed's Python code."""
    compare(torch.float32, 32, pre, normalize_invertible=invertible, gelu_checkpoint=gelu, attn_dropout_checkpoint=checkpoint)


@pytest.mark.parametrize("pre", [False, True])
def test_other_code_paths(pre):
    """Check float16, the module of the stochastic builder, a tuple as the result, and a length that
    DeepSpeed pads to 48.
    """
    compare(torch.float16, 32, pre)
    compare(torch.float32, 32, pre, stochastic_mode=True, return_tuple=True)
    compare(torch.float32, 37, pre)


@pytest.mark.parametrize("pre", [False, True])
def test_dropouts(pre):
    """Fails if the backward pass gets a different seed than the forward pass drew."""
    compare(torch.float32, 32, pre, attn_dropout=0.3, hidden_dropout=0.2)


def test_evaluation():
    """Check that evaluation applies no dropout, and gives the same result as AnyAccel's layer."""
    weights = own.parameters(32, 48, torch.float32)
    layer = make(weights, True, attn_dropout_ratio=0.5, hidden_dropout_ratio=0.5).eval()
    x, mask = torch.randn(2, 32, 32), torch.zeros(2, 1, 1, 32)
    config = own.transformer.DeepSpeedTransformerConfig(hidden_size=32, intermediate_size=48, heads=4)
    ours = own.transformer.DeepSpeedTransformerLayer(config).eval()
    with torch.no_grad():
        for name, value in zip(own.NAMES, weights):
            getattr(ours, name).copy_(value)
        assert layer(x, mask).equal(ours(x, mask))
