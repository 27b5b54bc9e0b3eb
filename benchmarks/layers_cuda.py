"""Times a transformer layer and block-sparse attention, forward and backward, on a GPU with
AnyAccel and with torch.

usage: layers_cuda.py [needs|small]

Prints one JSON object with milliseconds. `needs` exits with 0 if such a device exists. `small` uses
small sizes and compiles nothing, so that it runs on any device.
"""
import json
import sys

import torch
from torch.nn import functional as F

from on_device import seconds, with_builders


def milliseconds(call, synchronize, repeats):
    return seconds([call] * repeats, synchronize) * 1e3


def forward_and_backward(function, leaves, grad):
    def call():
        return torch.autograd.grad(function(*leaves), leaves, grad)
    return call


def compare(name, ours, theirs):
    """Check bfloat16 results and gradients by their relative error."""
    for mine, right in zip(ours, theirs):
        off = (mine.float() - right.float()).norm() / right.float().norm()
        assert off < 0.05, f"{name}: relative error {off:.3f}, expected below 0.05"


def layers(device, small):
    """Return (our function, {name: torch's function}, leaves, output gradient)."""
    batch, length, hidden, heads = (2, 40, 64, 4) if small else (16, 512, 1024, 16)

    def drawn(*shape, scale=0.02):
        return (torch.randn(*shape, device=device) * scale).to(torch.bfloat16).requires_grad_()
    ones = [torch.ones(hidden, device=device, dtype=torch.bfloat16).requires_grad_() for _ in range(2)]
    weights = [drawn(3 * hidden, hidden), drawn(3 * hidden), drawn(hidden, hidden), drawn(hidden), ones[0], drawn(hidden), drawn(4 * hidden, hidden),
               drawn(4 * hidden), drawn(hidden, 4 * hidden), drawn(hidden), ones[1], drawn(hidden)]

    def ours(x, *weights):
        return torch.ops.anyaccel.transformer_layer(x, None, *weights, heads)

    def plain(x, qkvw, qkvb, ow, ob, nw, nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b):
        q, k, v = F.linear(x, qkvw, qkvb).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, hidden)
        middle = F.layer_norm(x + F.linear(attended, ow, ob), (hidden,), nw, nb, 1e-12)
        return F.layer_norm(middle + F.linear(F.gelu(F.linear(middle, inter_w, inter_b)), output_w, output_b), (hidden,), norm_w, norm_b, 1e-12)
    leaves = [drawn(batch, length, hidden, scale=1), *weights]
    theirs = {"torch": plain} if small else {"torch": plain, "compiled": torch.compile(plain)}
    return ours, theirs, leaves, drawn(batch, length, hidden, scale=1).detach()


def sparse(device, small, length):
    batch, heads, dim, block = (1, 2, 32, 16) if small else (4, 16, 64, 64)
    blocks = length // block
    place = torch.arange(blocks, device=device)
    # A sliding window of three blocks, and a global block: it attends to all blocks, and all blocks
    # attend to it.
    there = ((place[:, None] - place).abs() <= 1) | (place[:, None] == 0) | (place == 0)
    layout = there[None].long()

    def drawn():
        return torch.randn(batch, heads, length, dim, device=device, dtype=torch.bfloat16).requires_grad_()

    def ours(q, k, v):
        return torch.ops.anyaccel.sparse_attention(q, k, v, layout, block)

    def masked(q, k, v):
        seen = there.repeat_interleave(block, 0).repeat_interleave(block, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    theirs = {"masked": masked}
    if not small:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        mask = create_block_mask(lambda b, h, q, k: there[q // block, k // block], None, None, length, length, device=device, BLOCK_SIZE=block)
        flex = torch.compile(flex_attention)
        theirs["flex"] = lambda q, k, v: flex(q, k, v, block_mask=mask)
    return ours, theirs, [drawn() for _ in range(3)], drawn().detach()


def main():
    small = sys.argv[1:] == ["small"]
    accelerator, device = with_builders("TransformerBuilder", "SparseAttnBuilder")
    torch.manual_seed(0)
    cases = {"layer": layers(device, small)}
    for length in (64, 128) if small else (2048, 8192):
        cases[f"sparse_{length}"] = sparse(device, small, length)
    numbers = {}
    for name, (ours, theirs, leaves, grad) in cases.items():
        mine = forward_and_backward(ours, leaves, grad)
        numbers[f"ours_{name}_ms"] = milliseconds(mine, accelerator.synchronize, 2 if small else 20)
        for side, function in theirs.items():
            call = forward_and_backward(function, leaves, grad)
            compare(f"{name}, {side}", (ours(*leaves).detach(), *mine()), (function(*leaves).detach(), *call()))
            numbers[f"{side}_{name}_ms"] = milliseconds(call, accelerator.synchronize, 2 if small else 20)
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
