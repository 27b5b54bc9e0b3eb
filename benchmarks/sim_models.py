"""Times training steps of GPT-2-like models of several sizes on one device.

usage: sim_models.py DEVICE

Prints {"<size>_step_ms": milliseconds of a step, ...}: the median of the steps after the first two.
"""
import json
import statistics
import sys
import time

import torch

# Name: layers, heads, width, vocabulary, batch, context, timed steps.
SIZES = {"1M": (2, 4, 128, 4096, 4, 128, 7), "10M": (6, 6, 288, 8192, 4, 256, 5), "gpt2-small": (12, 12, 768, 50257, 4, 256, 3)}


class Block(torch.nn.Module):

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class Model(torch.nn.Module):

    def __init__(self, layers, heads, width, vocabulary, context):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


def measure(device, size):
    layers, heads, width, vocabulary, batch, context, steps = SIZES[size]
    torch.manual_seed(0)
    model = Model(layers, heads, width, vocabulary, context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, vocabulary, (batch, context + 1), generator=torch.Generator().manual_seed(0)).to(device)
    times = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # waits for the step
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[2:])


def main():
    device = sys.argv[1]
    if device != "cpu":
        import anyaccel
        anyaccel.get_accelerator()
    print(json.dumps({f"{size}_step_ms": measure(device, size) for size in SIZES}))


if __name__ == "__main__":
    main()
