"""TransformerBuilder's layer as torch operations in float64, and a comparison with the op.
DS_ACCELERATOR selects the accelerator.
"""

import math

import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
transformer = accelerator.create_op_builder("TransformerBuilder").load()
NAMES = list(transformer.PARAMETERS)


def parameters(hidden, inter, dtype):
    shapes = {"attn_qkvw": (3 * hidden, hidden), "attn_qkvb": (3 * hidden,), "attn_ow": (hidden, hidden),
              "inter_w": (inter, hidden), "inter_b": (inter,), "output_w": (hidden, inter)}
    out = []
    for name in NAMES:
        shape = shapes.get(name, (hidden,))
        value = torch.randn(shape, dtype=torch.float64) * (1 / math.sqrt(hidden) if len(shape) == 2 else 0.5)
        if name in ("attn_nw", "norm_w"):
            value = value.abs() + 0.5
        out.append(value.to(dtype).requires_grad_())
    return out


def kept(ratio, seed, which, rows, columns):
    """Return the factor that dropout applies to each element, from the mask that the op draws."""
    mask = torch.ops.anyaccel._transformer_layer_mask(ratio, seed, which, rows, columns)
    return mask.double() / (1 - ratio)


def plain(x, mask, weights, heads, attn_dropout=0.0, hidden_dropout=0.0, eps=1e-12, seed=0, pre_layer_norm=False,
          gelu_approximate="none", **_):
    """Reference in float64. The attention result for a fully masked query is zero."""
    p = dict(zip(NAMES, weights))
    batch, length, hidden = x.shape
    dim = hidden // heads

    def norm(value, weight, bias):
        return torch.nn.functional.layer_norm(value, (hidden,), p[weight], p[bias], eps)

    def drop(value, ratio, which):
        if not ratio:
            return value
        return value * kept(ratio, seed, which, math.prod(value.shape[:-1]), value.shape[-1]).view(value.shape)

    normal = norm(x, "norm_w", "norm_b") if pre_layer_norm else x
    q, k, v = (normal @ p["attn_qkvw"].T + p["attn_qkvb"]).view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / math.sqrt(dim)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask.double()
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weighted = drop(scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0), attn_dropout, 1) @ v
    attention = weighted.transpose(1, 2).reshape(batch, length, hidden) @ p["attn_ow"].T + p["attn_ob"]
    middle = x + drop(attention, hidden_dropout, 2)
    normal = norm(middle, "attn_nw", "attn_nb")
    inner = torch.nn.functional.gelu(normal @ p["inter_w"].T + p["inter_b"], approximate=gelu_approximate)
    last = drop(inner @ p["output_w"].T + p["output_b"], hidden_dropout, 3)
    return middle + last if pre_layer_norm else norm(normal + last, "norm_w", "norm_b")


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad) if isinstance(tensor, torch.Tensor) else tensor


def compare(batch, length, hidden, heads, inter, dtype, mask=None, **options):
    """Compare the result and all gradients with the reference."""
    weights = parameters(hidden, inter, dtype)
    x = torch.randn(batch, length, hidden).to(dtype).requires_grad_()
    grad = torch.randn(batch, length, hidden).to(dtype)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, *weights)]
    want = plain(exact[0], mask, exact[1:], heads, **options)
    there = [on(tensor) for tensor in (x, *weights)]
    out = torch.ops.anyaccel.transformer_layer(there[0], on(mask), *there[1:], heads, **options)
    assert out.dtype == dtype and out.is_contiguous() and out.shape == x.shape
    error = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    torch.testing.assert_close(out.detach().cpu().double(), want, rtol=error, atol=error)
    out.backward(on(grad))
    want.backward(grad.double())
    for name, mine, right in zip(["input", *NAMES], there, exact):
        scale = 1 + (right.grad.abs().max().item() if right.numel() and right.grad.numel() else 0)
        torch.testing.assert_close(mine.grad.cpu().double(), right.grad, rtol=error, atol=error * scale,
                                   msg=lambda text, name=name: f"{name}: {text}")
