"""Whole transformer layers, bias additions of image models, and random token dropping."""

import torch
from torch.nn import functional as F

from ..table import FLOATS, Case

HEADS, HIDDEN, INNER = 3, 30, 50


def layer_inputs(draw, size, dtype):
    """`size` is the number of positions of each of two sequences."""
    shapes = [(3 * HIDDEN, HIDDEN), (3 * HIDDEN, ), (HIDDEN, HIDDEN), (HIDDEN, ), None, (HIDDEN, ), (INNER, HIDDEN), (INNER, ),
              (HIDDEN, INNER), (HIDDEN, ), None, (HIDDEN, )]
    weights = [
        draw.positive(HIDDEN, dtype=dtype) +
        0.5 if shape is None else draw.normal(*shape, dtype=dtype, scale=shape[-1]**-0.5 if len(shape) == 2 else 0.5)
        for shape in shapes
    ]
    return [draw.normal(2, size, HIDDEN, dtype=dtype), *weights]


def layer(op="transformer_layer", **options):
    def call(module, tensors):
        return [getattr(torch.ops.anyaccel, op)(tensors[0], None, *tensors[1:], HEADS, eps=1e-5, **options)]

    return call


def plain_layer(tensors):
    """The layer with norms after the sums and without dropout."""
    x, qkvw, qkvb, ow, ob, nw, nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b = tensors
    q, k, v = F.linear(x, qkvw, qkvb).view(*x.shape[:2], 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
    attended = ((q @ k.mT / (HIDDEN // HEADS)**0.5).softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
    middle = F.layer_norm(x + F.linear(attended, ow, ob), (HIDDEN, ), nw, nb, 1e-5)
    return [
        F.layer_norm(middle + F.linear(F.gelu(F.linear(middle, inter_w, inter_b)), output_w, output_b), (HIDDEN, ), norm_w, norm_b,
                     1e-5)
    ]


ALL = tuple(range(13))
LAYER = [
    Case("post-norm", layer_inputs, layer(), sizes=(0, 1, 3, 17, 131), dtypes=FLOATS, grads=ALL, plain=plain_layer, looser=6),
    Case("pre-norm",
         layer_inputs,
         layer(pre_layer_norm=True, gelu_approximate="tanh"),
         sizes=(1, 17, 131),
         dtypes=FLOATS,
         grads=ALL,
         looser=6),
    Case("dropout",
         layer_inputs,
         layer(attn_dropout=0.2, hidden_dropout=0.1, seed=5, gelu_checkpoint=True),
         sizes=(1, 17, 131),
         dtypes=FLOATS,
         grads=ALL,
         looser=6)
]


def image_inputs(draw, size, dtype):
    """`size` is the number of channels."""
    return [
        draw.normal(2, 5, size, dtype=dtype),
        draw.normal(size, dtype=dtype),
        draw.normal(2, 5, size, dtype=dtype),
        draw.normal(size, dtype=dtype)
    ]


def biases(module, tensors):
    activation, bias, other, other_bias = tensors
    return [
        module.nhwc_bias_add(activation, bias),
        module.nhwc_bias_add_add(activation, bias, other),
        module.nhwc_bias_add_bias_add(activation, bias, other, other_bias)
    ]


def plain_biases(tensors):
    activation, bias, other, other_bias = tensors
    return [activation + bias, activation + bias + other, activation + bias + other + other_bias]


def token_inputs(draw, size, dtype):
    """`size` is the number of tokens, of which half are kept."""
    kept = (size + 1) // 2
    return [
        draw.normal(2, size, 33, dtype=dtype),
        draw.normal(2, kept, 33, dtype=dtype),
        draw.chosen(2, size, kept).sort(-1).values
    ]


def tokens(module, tensors):
    whole, part, ids = tensors
    return [module.token_gather(whole, ids, True), module.token_scatter(whole, part, ids, True)]


def plain_tokens(tensors):
    whole, part, ids = tensors
    ids = ids.long()[..., None].expand(*part.shape)
    return [whole.gather(1, ids), whole.scatter(1, ids, part)]


def unsorted(draw, size, dtype):
    return [draw.chosen(5, 2 * size + 1, size)]


def sort(module, tensors):
    return [module.token_sort_(tensors[0], 2 * tensors[0].shape[1] + 1)]


def mask_inputs(draw, size, dtype):
    kept = (size + 1) // 2
    ids = torch.stack([draw.chosen(2, size, kept).sort(-1).values for _ in range(3)])
    return [draw.normal(2, 1, size, size, dtype=dtype), ids]


def masks(module, tensors):
    mask, ids = tensors
    return [module.mask_gather_bert(mask, ids), module.mask_gather_gpt(mask, ids.shape[-1])]


CASES = {
    "TransformerBuilder": LAYER,
    "StochasticTransformerBuilder": [
        Case("stochastic",
             layer_inputs,
             layer("stochastic_transformer_layer", attn_dropout=0.1, seed=3),
             sizes=(1, 17, 131),
             dtypes=FLOATS,
             grads=ALL,
             looser=6)
    ],
    "SpatialInferenceBuilder": [
        Case("biases", image_inputs, biases, dtypes=FLOATS, grads=(0, 1, 2, 3), plain=plain_biases, looser=3)
    ],
    "RandomLTDBuilder": [
        Case("tokens", token_inputs, tokens, dtypes=FLOATS, grads=(0, 1), sizes=(1, 3, 17, 1003), plain=plain_tokens),
        Case("sort", unsorted, sort, dtypes=("int32", ), exact=True),
        Case("masks", mask_inputs, masks, sizes=(1, 3, 17, 263), dtypes=FLOATS, exact=True)
    ],
}
