"""A small decoder with configurable layers, as arguments of `inference_decode`, and a reference
implementation in plain torch, in float64. DS_ACCELERATOR selects the accelerator.
"""

import dataclasses
import math

import torch

import anyaccel
from anyaccel.ops import decoder

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
accelerator.create_op_builder("DecoderInferenceBuilder").load()
decode = torch.ops.anyaccel.inference_decode

GATES = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu,
         "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "relu": torch.relu,
         "relu2": lambda x: torch.relu(x).square()}


def pack(weight, bits, group, asymmetric, random):
    """Return quantized weights with scales and zero points in the op's format, and the values that
    they represent.
    """
    outputs, inputs = weight.shape
    scales = (torch.rand(outputs, inputs // group, generator=random) * 0.02 + 0.01) * (1 if bits == 4 else 0.06)
    wide = scales.repeat_interleave(group, 1).double()
    if bits == 8:
        q = torch.randint(-127, 128, weight.shape, generator=random)
        return (q.to(torch.int8), scales, None), q * wide
    q = torch.randint(0, 16, weight.shape, generator=random)
    zeros = torch.randint(0, 16, scales.shape, generator=random, dtype=torch.uint8)
    block = 64 if group % 64 == 0 else 32
    planes = q.view(outputs, -1, 4, block // 4)  # dimensions: output, block, nibble, word
    low, high = planes[:, :, 0] | planes[:, :, 1] << 4, planes[:, :, 2] | planes[:, :, 3] << 4
    packed = torch.stack([low, high], -1).reshape(outputs, -1).to(torch.uint8)
    zero = zeros.repeat_interleave(group, 1).long() if asymmetric else 8
    return (packed, scales, zeros if asymmetric else None), (q - zero) * wide


class Model:
    """A decoder with random weights from a seed: the op's arguments and the reference."""

    def __init__(self, dtype=torch.float32, norm="rms", gate="silu", gated=True, head_norms=False, norms_after=False, bias=False, split=False, bits=0,
                 group=32, asymmetric=False, softcap=0.0, window=0, half=None, layers=2, heads=4, kv_heads=2, dim=16, hidden=64, inner=96, vocab=41,
                 experts=0, per_token=0, expert_inner=48, normalize=False, dense_layers=(), group_heads=0, first_head=0):
        self.__dict__.update(locals())
        self.half = dim // 2 if half is None else half
        self.random = torch.Generator().manual_seed(1)
        self.flat, self.layers_of = [], []
        for i in range(layers):
            self.layers_of.append(self.layer(experts and i not in dense_layers))
        self.last = self.norm_of(hidden)
        self.head = self.linear(vocab, hidden)
        self.windows = [window if i % 2 == 0 else 0 for i in range(layers)]
        self.scales = [1 / math.sqrt(dim) / (i + 1) for i in range(layers)]
        self.config = decoder.DecoderConfig(
            heads, kv_heads, dim, group_heads, first_head if group_heads else 0, per_token, decoder.Norm[norm.upper()], decoder.Activation[gate.upper()],
            gated=gated, norms_after=norms_after, final_norm=True, normalize_experts=normalize, norm_eps=1e-5, attention_softcap=softcap,
            layers=[decoder.DecoderLayerConfig(*layer) for layer in zip(self.scales, self.windows)])
        self.key_heads = [(first_head + head) // (group_heads or heads // kv_heads) for head in range(heads)]

    def draw(self, *shape):
        return torch.randn(*shape, generator=self.random).mul(0.3).to(self.dtype)

    def tensor(self, value):
        self.flat.append(None if value is None else value.to(DEVICE))
        return None if value is None else value.double()

    def norm_of(self, size, there=True, with_bias=None):
        weight = self.tensor(self.draw(size) + (0 if self.norm == "rms_plus_one" else 1) if there else None)
        return weight, self.tensor(self.draw(size) if there and self.norm == "layer" else None)

    def linear(self, outputs, inputs):
        weight = self.draw(outputs, inputs)
        if self.bits:
            given, values = pack(weight, self.bits, self.group, self.asymmetric, self.random)
            for tensor in given:
                self.tensor(tensor)
        else:
            values = self.tensor(weight)
            self.tensor(None), self.tensor(None)
        return values, self.tensor(self.draw(outputs) if self.bias else None)

    def nothing(self):
        for _ in range(4):
            self.tensor(None)

    def together(self, *outputs):
        """Return the projections, separate or fused."""
        if self.split:
            parts = [self.linear(each, self.hidden) for each in outputs]
        else:
            parts = [self.linear(sum(outputs), self.hidden)]
            for _ in outputs[1:]:
                self.nothing()
        biases = [bias for _, bias in parts]
        return torch.cat([weight for weight, _ in parts]), None if biases[0] is None else torch.cat(biases)

    def layer(self, experts):
        size = self.dim
        out = {"input": self.norm_of(self.hidden), "qkv": self.together(self.heads * size, self.kv_heads * size, self.kv_heads * size),
               "q": self.norm_of(size, self.head_norms), "k": self.norm_of(size, self.head_norms), "o": self.linear(self.hidden, self.heads * size),
               "after": self.norm_of(self.hidden, self.norms_after), "post": self.norm_of(self.hidden)}
        if experts:
            for _ in range(3):
                self.nothing()
        elif self.gated:
            out["up"] = self.together(self.inner, self.inner)
        else:
            out["up"] = self.linear(self.inner, self.hidden)
            self.nothing()
        if not experts:
            out["down"] = self.linear(self.hidden, self.inner)
        out["last"] = self.norm_of(self.hidden, self.norms_after)
        shapes = ((self.experts, self.hidden), (self.experts, 2 * self.expert_inner, self.hidden), (self.experts, self.hidden, self.expert_inner))
        out["experts"] = [self.tensor(self.draw(*shape) if experts else None) for shape in shapes]
        return out

    def config_of(self, *layers, **changes):
        """Return the configuration of only these layers, with `changes` applied."""
        return dataclasses.replace(self.config, layers=[self.config.layers[i] for i in layers], **changes)

    def caches(self, capacity):
        return [torch.zeros(1, self.kv_heads, capacity, self.dim, dtype=self.dtype, device=DEVICE) for _ in range(self.layers)]

    def angles(self, begin, count):
        turn = torch.outer(torch.arange(begin, begin + count).double(), 0.5 ** torch.arange(self.half).double())
        return [turn.cos().float().to(DEVICE), turn.sin().float().to(DEVICE)] if self.half else []

    def run(self, x, keys, values, past):
        """Return the logits of the rows x, which follow `past` cached positions. Updates the
        caches.
        """
        return self.run_segments(x, keys, values, [past], [len(x)])

    def run_segments(self, x, keys, values, past, count, last_only=False):
        """Run several sequences, with their caches, positions and rows concatenated."""
        rows = x.to(DEVICE, copy=True)
        logits = torch.full((len(count) if last_only else len(x), self.vocab), 7.0, device=DEVICE)
        angles = [torch.cat(each) for each in zip(*(self.angles(*place) for place in zip(past, count)))]
        decode(rows, self.flat, keys, values, angles, past, count,
               self.config.pack(), logits)
        return logits.cpu()

    def normed(self, x, norm):
        weight, bias = norm
        if self.norm == "layer":
            return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * (weight + 1 if self.norm == "rms_plus_one" else weight)

    def rotated(self, x, begin):
        if not self.half:
            return x
        cos, sin = (each.cpu().double()[:, None] for each in self.angles(begin, len(x)))
        a, b, rest = x[..., :self.half], x[..., self.half:2 * self.half], x[..., 2 * self.half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)

    def fed_forward(self, x, first, down):
        up = torch.nn.functional.linear(x, *first)
        act = GATES[self.gate]
        inner = up.shape[-1] // 2
        return torch.nn.functional.linear(act(up[:, :inner]) * up[:, inner:] if self.gated else act(up), *down)

    def mixed_experts(self, x, router, first, down):
        shares, chosen = (x @ router.t()).softmax(-1).topk(self.per_token)
        if self.normalize:
            shares = shares / shares.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for row, place in ((row, place) for row in range(len(x)) for place in range(self.per_token)):
            expert = chosen[row, place]
            out[row] += shares[row, place] * self.fed_forward(x[row:row + 1], (first[expert],), (down[expert],))[0]
        return out

    def reference(self, x):
        """Return the reference result for all positions at once, in float64."""
        x = x.double()
        time = len(x)
        for i, layer in enumerate(self.layers_of):
            weight, bias = layer["qkv"]
            qkv = torch.nn.functional.linear(self.normed(x, layer["input"]), weight, bias).view(time, -1, self.dim)
            q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
            if self.head_norms:
                q, k = self.normed(q, layer["q"]), self.normed(k, layer["k"])
            q, k = self.rotated(q, 0), self.rotated(k, 0)
            k, v = (each.to(self.dtype).double()[:, self.key_heads].transpose(0, 1) for each in (k, v))
            scores = q.transpose(0, 1) @ k.transpose(1, 2) * self.scales[i]
            if self.softcap:
                scores = (scores / self.softcap).tanh() * self.softcap
            place = torch.arange(time)
            unseen = place[None] > place[:, None]
            if self.windows[i]:
                unseen |= place[None] <= place[:, None] - self.windows[i]
            mixed = (scores.masked_fill(unseen, -math.inf).softmax(-1) @ v).transpose(0, 1).reshape(time, -1)
            change = torch.nn.functional.linear(mixed, *layer["o"])
            x = x + (self.normed(change, layer["after"]) if self.norms_after else change)
            normed = self.normed(x, layer["post"])
            change = self.mixed_experts(normed, *layer["experts"]) if "up" not in layer else self.fed_forward(normed, layer["up"], layer["down"])
            x = x + (self.normed(change, layer["last"]) if self.norms_after else change)
        return torch.nn.functional.linear(self.normed(x, self.last), *self.head)


KINDS = {
    "llama": {},
    "parts": {"split": True, "bias": True},
    "cut groups": {"heads": 5, "kv_heads": 3, "group_heads": 3, "first_head": 2}, "cut at the end": {"heads": 5, "kv_heads": 2, "group_heads": 3},
    "gemma": {"norm": "rms_plus_one", "gate": "gelu_tanh", "norms_after": True, "head_norms": True, "softcap": 3.0, "window": 4},
    "gpt2": {"norm": "layer", "gate": "gelu", "gated": False, "bias": True, "half": 0, "kv_heads": 4},
    "opt": {"norm": "layer", "gate": "relu", "gated": False, "bias": True, "half": 0},
    "relu2": {"gate": "relu2", "inner": 100}, "relu2 and int8": {"gate": "relu2", "bits": 8}, "gelu": {"gate": "gelu"}, "relu": {"gate": "relu"},
    "relu2 experts": {"experts": 5, "per_token": 2, "gate": "relu2"},
    "odd": {"dim": 22, "half": 5, "hidden": 70, "inner": 37, "heads": 6, "kv_heads": 3},
    "int8": {"bits": 8}, "int8 64": {"bits": 8, "group": 64, "inner": 128, "split": True},
    "int4": {"bits": 4, "group": 64, "inner": 192}, "int4 zeros": {"bits": 4, "group": 64, "inner": 192, "asymmetric": True},
    "int4 32": {"bits": 4, "asymmetric": True},
    "experts": {"experts": 5, "per_token": 2, "normalize": True},
    "experts and dense layers": {"experts": 8, "per_token": 3, "head_norms": True, "dense_layers": [1], "layers": 3, "split": True},
    "odd experts": {"experts": 7, "per_token": 4, "dim": 22, "half": 5, "hidden": 70, "inner": 37, "expert_inner": 33, "norms_after": True, "gate": "gelu"},
    "all experts": {"experts": 3, "per_token": 3, "expert_inner": 130}, "experts and int8": {"bits": 8, "experts": 4, "per_token": 1, "dense_layers": [0]},
}
