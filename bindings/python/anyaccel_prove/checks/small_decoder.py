"""A small Llama-like decoder as arguments of `inference_decode`, for checks and generation."""

import torch

from anyaccel.ops import decoder

HEADS, KV_HEADS, DIM, HIDDEN, INNER = 4, 2, 16, 64, 96


def flat_weights(layers, norm, head):
    """Return the op's list of weights. Each layer is a tuple: norm, query-key-value matrix, output
    matrix, norm, gate and up matrix, down matrix.
    """
    flat = []
    for first, qkv, out, second, up, down in layers:
        flat += [first, None, qkv, *[None] * 11, *[None] * 4, out, *[None] * 5, second, None, up, *[None] * 7, down, *[None] * 8]
    return [*flat, norm, None, head, None, None, None]


def angles_of(positions, dim=DIM):
    """Return the cosines and sines of the rotary embedding."""
    turn = torch.outer(positions.double(), 10000.0**(-torch.arange(dim // 2).double() * 2 / dim))
    return turn.cos().float(), turn.sin().float()


def config_of(layers, heads=HEADS, kv_heads=KV_HEADS, dim=DIM):
    return decoder.DecoderConfig(heads,
                                 kv_heads,
                                 dim,
                                 gated=True,
                                 final_norm=True,
                                 norm_eps=1e-5,
                                 layers=[decoder.DecoderLayerConfig(dim**-0.5)] * layers).pack()


class SmallDecoder:
    """Two layers with random weights."""

    LAYERS, VOCABULARY, CAPACITY = 2, 41, 4
    # Tensors of one layer, in the order of flat_weights().
    SHAPES = ((HIDDEN, ), ((HEADS + 2 * KV_HEADS) * DIM, HIDDEN), (HIDDEN, HEADS * DIM), (HIDDEN, ), (2 * INNER, HIDDEN), (HIDDEN,
                                                                                                                           INNER))

    def __init__(self, draw, dtype):
        def weight(shape):
            return draw.normal(*shape, dtype=dtype, scale=0.3) + (1 if len(shape) == 1 else 0)

        self.dtype = dtype
        self.weights = [weight(shape) for _ in range(self.LAYERS)
                        for shape in self.SHAPES] + [weight((HIDDEN, )), weight((self.VOCABULARY, HIDDEN))]

    def inputs(self, draw, past, rows):
        """Return x, the angles, the caches and the weights."""
        capacity = past + rows + self.CAPACITY
        caches = [draw.normal(1, KV_HEADS, capacity, DIM, dtype=self.dtype) for _ in range(2 * self.LAYERS)]
        return [draw.normal(rows, HIDDEN), *angles_of(torch.arange(past, past + rows)), *caches, *self.weights]

    @classmethod
    def call(cls, tensors):
        """Decode, and return the logits and the caches."""
        x, cos, sin = tensors[:3]
        caches, weights = tensors[3:3 + 2 * cls.LAYERS], tensors[3 + 2 * cls.LAYERS:]
        size = len(cls.SHAPES)
        flat = flat_weights([weights[i * size:(i + 1) * size] for i in range(cls.LAYERS)], *weights[-2:])
        past = caches[0].shape[2] - len(x) - cls.CAPACITY
        logits = x.new_zeros(len(x), cls.VOCABULARY)
        torch.ops.anyaccel.inference_decode(x.clone(), flat, caches[:cls.LAYERS], caches[cls.LAYERS:], [cos, sin], [past], [len(x)],
                                            config_of(cls.LAYERS), logits)
        return [logits, *caches]
