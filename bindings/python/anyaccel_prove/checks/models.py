"""Small language models over bytes, composed of torch's and AnyAccel's ops."""

import torch
from torch.nn import functional as F

import anyaccel

from .protocol import Skip
from .small_decoder import DIM, HEADS, HIDDEN, INNER, KV_HEADS, angles_of, config_of, flat_weights
from .table import Draw

VOCABULARY, LENGTH, BATCH, LAYERS = 64, 32, 8, 2


def text(batch, seed=0):
    """Return rows of tokens, each an arithmetic sequence with a random start and step."""
    draw = Draw(seed)
    start, step = draw.integers(0, VOCABULARY, batch, 1), draw.integers(1, 4, batch, 1)
    return (start + step * torch.arange(LENGTH + 1)) % VOCABULARY


def load(name):
    builder = anyaccel.get_accelerator().create_op_builder(name)
    compatible = builder.compatibility()
    if not compatible.compatible:
        raise Skip(compatible.reason)
    return builder.load()


def rms(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


class Decoder(torch.nn.Module):
    """The model of small_decoder.py, for training; `generate` runs it with the op."""
    def __init__(self):
        super().__init__()
        draw = Draw(3)

        def matrix(outputs, inputs):
            return torch.nn.Parameter(draw.normal(outputs, inputs, scale=0.7 * inputs**-0.5))

        self.embedding, self.head = matrix(VOCABULARY, HIDDEN), matrix(VOCABULARY, HIDDEN)
        self.norm = torch.nn.Parameter(torch.ones(HIDDEN))
        self.flat = torch.nn.ParameterList()
        for _ in range(LAYERS):
            self.flat.extend([
                torch.nn.Parameter(torch.ones(HIDDEN)),
                matrix((HEADS + 2 * KV_HEADS) * DIM, HIDDEN),
                matrix(HIDDEN, HEADS * DIM),
                torch.nn.Parameter(torch.ones(HIDDEN)),
                matrix(2 * INNER, HIDDEN),
                matrix(HIDDEN, INNER)
            ])

    def layers(self):
        return [tuple(self.flat[i:i + 6]) for i in range(0, len(self.flat), 6)]

    def logits_after(self, tokens):
        x = self.embedding[tokens]
        count = tokens.shape[1]
        cos, sin = (each.to(x.device, x.dtype) for each in angles_of(torch.arange(count)))

        def rotated(value):
            a, b = value.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

        for first, qkv, out, second, up, down in self.layers():
            q, k, v = F.linear(rms(x, first), qkv).split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
            q, k, v = (each.view(*tokens.shape, -1, DIM).transpose(1, 2) for each in (q, k, v))
            k, v = (each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (rotated(k), v))
            mixed = F.scaled_dot_product_attention(rotated(q), k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + F.linear(mixed, out)
            gate, value = F.linear(rms(x, second), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * value, down)
        return F.linear(rms(x, self.norm), self.head)


class Encoder(torch.nn.Module):
    """Two layers of the op transformer_layer with a causal mask."""
    def __init__(self):
        super().__init__()
        load("TransformerBuilder")
        draw = Draw(4)
        self.embedding = torch.nn.Parameter(draw.normal(VOCABULARY, HIDDEN))
        self.positions = torch.nn.Parameter(draw.normal(LENGTH, HIDDEN, scale=0.1))
        self.head = torch.nn.Parameter(draw.normal(VOCABULARY, HIDDEN, scale=HIDDEN**-0.5))
        self.flat = torch.nn.ParameterList()
        shapes = [(3 * HIDDEN, HIDDEN), (3 * HIDDEN, ), (HIDDEN, HIDDEN), (HIDDEN, ), None, (HIDDEN, ), (INNER, HIDDEN), (INNER, ),
                  (HIDDEN, INNER), (HIDDEN, ), None, (HIDDEN, )]
        for _ in range(LAYERS):
            for shape in shapes:
                value = torch.ones(HIDDEN) if shape is None else draw.normal(*shape, scale=shape[-1]**
                                                                             -0.5) if len(shape) == 2 else torch.zeros(shape)
                self.flat.append(torch.nn.Parameter(value))

    def logits_after(self, tokens):
        count = tokens.shape[1]
        x = self.embedding[tokens] + self.positions[:count]
        mask = torch.ones(count, count, dtype=torch.bool, device=x.device).tril()
        for i in range(0, len(self.flat), 12):
            x = torch.ops.anyaccel.transformer_layer(x, mask, *self.flat[i:i + 12], HEADS, eps=1e-5, pre_layer_norm=True)
        return F.linear(x, self.head)


def adam(parameters, states, step, device):
    flag = torch.zeros(1, dtype=torch.int32, device=device)
    load("FusedAdamBuilder").multi_tensor_adam(65536, flag, [[each.grad for each in parameters], parameters, *states], 1e-2, 0.9,
                                               0.95, 1e-8, step, 1, 1, 0.01)


def lion(parameters, states, step, device):
    flag = torch.zeros(1, dtype=torch.int32, device=device)
    load("FusedLionBuilder").multi_tensor_lion(65536, flag, [[each.grad for each in parameters], parameters, states[0]], 2e-3, 0.9,
                                               0.99, step, 0.01)


def train(make, optimizer, device, steps, dtype):
    """Train on a device. Return the model and the losses."""
    model = make().to(device, dtype)
    parameters = list(model.parameters())
    states = [[torch.zeros_like(each) for each in parameters] for _ in range(2)]
    losses = []
    for step in range(1, steps + 1):
        tokens = text(BATCH, seed=step).to(device)
        logits = model.logits_after(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()
        optimizer(parameters, states, step, device)
        losses.append(loss.detach())
    return model, [each.item() for each in losses]


def generate(model, prompt, count, device, follow=None):
    """Return tokens and logits of a greedy continuation with the op. If `follow` is given, use
    its tokens instead of the most likely ones.
    """
    load("DecoderInferenceBuilder")
    dtype, config = model.head.dtype, config_of(LAYERS)
    with torch.no_grad():
        flat = [None if each is None else each.detach().to(device) for each in flat_weights(model.layers(), model.norm, model.head)]
        keys, values = ([torch.zeros(1, KV_HEADS, len(prompt) + count, DIM, dtype=dtype, device=device) for _ in range(LAYERS)]
                        for _ in range(2))
        embedding, given, past, tokens, out = model.embedding.detach().to(device).float(), list(prompt), 0, [], []
        while len(tokens) < count:
            x, logits = embedding[torch.tensor(given, device=device)].clone(), torch.zeros(len(given), VOCABULARY, device=device)
            angles = [each.to(device) for each in angles_of(torch.arange(past, past + len(given)))]
            torch.ops.anyaccel.inference_decode(x, flat, keys, values, angles, [past], [len(given)], config, logits)
            past += len(given)
            out.append(logits[-1].cpu())
            tokens.append(follow[len(tokens)] if follow else int(out[-1].argmax()))
            given = tokens[-1:]
    return tokens, torch.stack(out)
