"""Optimizer steps. Parameters, gradients and states are changed in place and compared."""

import math

import torch

from ..table import FLOATS, Case

RATE, BETA1, BETA2, EPS, DECAY, STEP = 1e-2, 0.9, 0.99, 1e-8, 0.1, 3
OPTIMIZER = 4242  # the id of the optimizers that these cases create


def states(count, *, squares=()):
    """Return a function that draws a gradient, parameters and `count` states of two sizes."""
    def make(draw, size, dtype):
        out = []
        for number in range(2 + count):
            drawn = draw.positive if number in squares else draw.normal
            out += [drawn(size, dtype=dtype), drawn(2 * size + 1, dtype=dtype)]
        return out

    return make


def lists(tensors):
    """Return lists of tensors: gradients, parameters, and each state."""
    return [list(pair) for pair in zip(tensors[::2], tensors[1::2])]


def flag(tensors):
    return torch.zeros(1, dtype=torch.int32, device=tensors[0].device)


def fused_adam(mode):
    def call(module, tensors):
        # The flag may be created inside a captured graph, because the op ignores it.
        module.multi_tensor_adam(65536, flag(tensors), lists(tensors), RATE, BETA1, BETA2, EPS, STEP, mode, 1, DECAY)
        return tensors[2:]

    return call


def fused_lion(module, tensors):
    module.multi_tensor_lion(65536, flag(tensors), lists(tensors), RATE, BETA1, BETA2, STEP, DECAY)
    return tensors[2:]


def plain_adam(mode):
    def step(tensors):
        out = []
        for g, p, m, v in zip(*lists(tensors)):
            if mode == 0:
                g = g + DECAY * p
            m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
            update = (m / (1 - BETA1**STEP)) / ((v / (1 - BETA2**STEP)).sqrt() + EPS) + (DECAY * p if mode else 0)
            out.append((p - RATE * update, m, v))
        return [each for kind in zip(*out) for each in kind]

    return step


def plain_lion(tensors):
    out = []
    for g, p, m in zip(*lists(tensors)):
        out.append((p * (1 - RATE * DECAY) - RATE * (BETA1 * m + (1 - BETA1) * g).sign(), BETA2 * m + (1 - BETA2) * g))
    return [each for kind in zip(*out) for each in kind]


def lamb_inputs(draw, size, dtype):
    return [
        draw.normal(size),
        draw.normal(size, scale=0.1),
        draw.positive(size),
        draw.normal(size, dtype=dtype),
        torch.zeros(size, dtype=dtype)
    ]


def lamb(module, tensors):
    p, m, v, g, copy = tensors
    copy = p.new_empty(0) if g.dtype == torch.float32 else copy
    ratio = module.lamb(p, copy, m, v, g, RATE, BETA1, BETA2, 10.0, 0.01, 1e-6, 2.0, STEP, 1, 1, DECAY)
    return [p, m, v, copy, ratio]


def on_the_host(name, create, update):
    """Return a call of a step on one list of host tensors."""
    def call(module, tensors):
        create(module)
        try:
            update(module, *lists(tensors))
        finally:
            getattr(module, f"destroy_{name}")(OPTIMIZER)
        return tensors[2:]

    return call


cpu_adam = on_the_host(
    "adam", lambda module: module.create_adam(OPTIMIZER, RATE, BETA1, BETA2, EPS, DECAY, True, False),
    lambda module, g, p, m, v: module.adam_update_list(OPTIMIZER, STEP, RATE, BETA1, BETA2, EPS, DECAY, True, p, g, m, v))
cpu_adagrad = on_the_host("adagrad", lambda module: module.create_adagrad(OPTIMIZER, RATE, 1e-10, DECAY, False),
                          lambda module, g, p, s: module.adagrad_update_list(OPTIMIZER, STEP, RATE, 1e-10, DECAY, p, g, s))
cpu_lion = on_the_host("lion", lambda module: module.create_lion(OPTIMIZER, RATE, BETA1, BETA2, DECAY, False),
                       lambda module, g, p, m: module.lion_update_list(OPTIMIZER, STEP, RATE, BETA1, BETA2, DECAY, p, g, m))


def plain_adagrad(tensors):
    out = []
    for g, p, s in zip(*lists(tensors)):
        g = g + DECAY * p
        s = s + g * g
        out.append((p - RATE * g / (s.sqrt() + 1e-10), s))
    return [each for kind in zip(*out) for each in kind]


def plain_lamb(tensors):
    p, m, v, g, copy = tensors
    g = g / 2.0
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    update = m / (v.sqrt() + 1e-6) + DECAY * p
    weight, length = p.norm().item(), update.norm().item()
    ratio = min(max(weight / length, 0.01), 10.0) if weight and length else 1.0
    rate = RATE * math.sqrt(1 - BETA2**STEP) / (1 - BETA1**STEP)
    return [p - rate * ratio * update, m, v, copy.new_empty(0), torch.tensor([ratio], dtype=torch.float64)]


# DeepSpeed's optimizers for host memory keep their states in float32.
HOST = {"pinned": True, "exact": True}
CASES = {
    "FusedAdamBuilder": [
        Case(name, states(2, squares=(3, )), fused_adam(mode), dtypes=FLOATS, exact=True, plain=plain_adam(mode))
        for name, mode in (("adam", 0), ("adamw", 1))
    ],
    "FusedLionBuilder": [Case("lion", states(1), fused_lion, dtypes=FLOATS, exact=True, plain=plain_lion)],
    # Not exact: the norms, which affect the float32 states, are summed in a different order.
    "FusedLambBuilder": [Case("lamb", lamb_inputs, lamb, dtypes=FLOATS),
                         Case("lamb-formula", lamb_inputs, lamb, plain=plain_lamb)],
    "CPUAdamBuilder": [Case("adamw", states(2, squares=(3, )), cpu_adam, plain=plain_adam(1), **HOST)],
    "CPUAdagradBuilder": [Case("adagrad", states(1, squares=(2, )), cpu_adagrad, plain=plain_adagrad, **HOST)],
    "CPULionBuilder": [Case("lion", states(1), cpu_lion, plain=plain_lion, **HOST)],
}
