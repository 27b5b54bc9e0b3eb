"""Times a step of each optimizer except CPUAdam, and of its peers, on the same arrays, alternating
between them.

usage: optimizers.py [MILLIONS_OF_PARAMETERS...]

CPUAdagrad and CPULion work on one tensor; FusedAdam, FusedLamb and FusedLion on a list of large and
small tensors.
"""
import json
import os
import sys

import torch

import anyaccel
from by_turns import by_turns

LR, BETAS, EPS, DECAY, STEP = 1e-3, (0.9, 0.99), 1e-8, 0.01, 100
LAMB_EPS, BOUNDS = 1e-6, (10.0, 0.01)


def ours(name):
    return anyaccel.get_accelerator().create_op_builder(name).load()


def deepspeeds(name):
    """Return the DeepSpeed op with this name, or None if DeepSpeed is not installed."""
    try:
        from deepspeed.ops.op_builder import cpu
    except ImportError:
        return None
    return getattr(cpu, name)().load(verbose=False)


def torch_step(kind, params, grads, **options):
    params = [torch.nn.Parameter(p) for p in params]
    for p, g in zip(params, grads):
        p.grad = g
    return kind(params, lr=LR, weight_decay=DECAY, **options).step


def foreach_lion(params, grads, states):
    """Return a Lion step as PyTorch programs write it: one torch._foreach_ call per operation."""
    def step():
        torch._foreach_mul_(params, 1 - LR * DECAY)
        update = torch._foreach_mul(states, BETAS[0])
        torch._foreach_add_(update, grads, alpha=1 - BETAS[0])
        torch._foreach_sign_(update)
        torch._foreach_add_(params, update, alpha=-LR)
        torch._foreach_lerp_(states, grads, 1 - BETAS[1])
    return step


def foreach_lamb(params, grads, m, v):
    root = (1 - BETAS[1] ** STEP) ** 0.5 / (1 - BETAS[0] ** STEP)

    def step():
        torch._foreach_lerp_(m, grads, 1 - BETAS[0])
        torch._foreach_mul_(v, BETAS[1])
        torch._foreach_addcmul_(v, grads, grads, 1 - BETAS[1])
        divisor = torch._foreach_sqrt(v)
        torch._foreach_add_(divisor, LAMB_EPS)
        update = torch._foreach_div(m, divisor)
        torch._foreach_add_(update, params, alpha=DECAY)
        ratios = torch._foreach_div(torch._foreach_norm(params), torch._foreach_norm(update))
        ratios = [r.clamp(BOUNDS[1], BOUNDS[0]) for r in ratios]
        torch._foreach_mul_(update, ratios)
        torch._foreach_add_(params, update, alpha=-LR * root)
    return step


def adagrad_sides(op, theirs, p, g):
    own = torch.zeros_like(p)
    wide = torch.zeros(p.shape)
    sides = {"anyaccel": lambda: op.adagrad_update(0, STEP, LR, EPS, DECAY, p, g, wide),
             "own_state": lambda: op.adagrad_update(0, STEP, LR, EPS, DECAY, p, g, own),
             "torch_fused": torch_step(torch.optim.Adagrad, [p], [g], eps=EPS, fused=True),
             "torch_foreach": torch_step(torch.optim.Adagrad, [p], [g], eps=EPS, foreach=True)}
    if theirs:
        sides["deepspeed"] = lambda: theirs.adagrad_update(0, STEP, LR, EPS, DECAY, p, g, wide)
    return sides


def lion_sides(op, theirs, p, g):
    own = torch.zeros_like(p)
    wide = torch.zeros(p.shape)
    sides = {"anyaccel": lambda: op.lion_update(0, STEP, LR, *BETAS, DECAY, p, g, wide),
             "own_state": lambda: op.lion_update(0, STEP, LR, *BETAS, DECAY, p, g, own),
             "torch_foreach": foreach_lion([p], [g], [own])}
    if theirs:
        sides["deepspeed"] = lambda: theirs.lion_update(0, STEP, LR, *BETAS, DECAY, p, g, wide)
    return sides


def fused_adam_sides(op, theirs, params, grads):
    flag = torch.zeros(1, dtype=torch.int32)
    lists = [grads, params, *([torch.zeros_like(p) for p in params] for _ in range(2))]
    numbers = (LR, *BETAS, EPS, STEP, 1, 1, DECAY)
    sides = {"own_state": lambda: op.multi_tensor_adam(65536, flag, lists, *numbers),
             "torch_fused": torch_step(torch.optim.AdamW, params, grads, betas=BETAS, eps=EPS, fused=True),
             "torch_foreach": torch_step(torch.optim.AdamW, params, grads, betas=BETAS, eps=EPS, foreach=True)}
    if theirs:
        sides["deepspeed"] = lambda: theirs.multi_tensor_adam(65536, flag, lists, *numbers)
    return sides


def fused_lion_sides(op, _theirs, params, grads):
    flag = torch.zeros(1, dtype=torch.int32)
    states = [torch.zeros_like(p) for p in params]
    return {"own_state": lambda: op.multi_tensor_lion(65536, flag, [grads, params, states], LR, *BETAS, STEP, DECAY),
            "torch_foreach": foreach_lion(params, grads, states)}


def fused_lamb_sides(op, _theirs, params, grads):
    m, v = ([torch.zeros_like(p) for p in params] for _ in range(2))
    none = torch.tensor([])

    def step():  # one call per tensor, like DeepSpeed's FusedLamb
        for p, g, mm, vv in zip(params, grads, m, v):
            op.lamb(p, none, mm, vv, g, LR, *BETAS, *BOUNDS, LAMB_EPS, 1.0, STEP, 1, 1, DECAY)
    return {"own_state": step, "torch_foreach": foreach_lamb(params, grads, m, v)}


def main():
    adagrad, lion = ours("CPUAdagradBuilder"), ours("CPULionBuilder")
    their_adagrad, their_lion = deepspeeds("CPUAdagradBuilder"), deepspeeds("CPULionBuilder")
    for module in filter(None, (adagrad, their_adagrad)):
        module.create_adagrad(0, LR, EPS, DECAY, False)
    for module in filter(None, (lion, their_lion)):
        module.create_lion(0, LR, *BETAS, DECAY, False)
    makers = {"cpu_adagrad": (adagrad_sides, adagrad, their_adagrad), "cpu_lion": (lion_sides, lion, their_lion),
              "fused_adam": (fused_adam_sides, ours("FusedAdamBuilder"), deepspeeds("FusedAdamBuilder")),
              "fused_lamb": (fused_lamb_sides, ours("FusedLambBuilder"), None),
              "fused_lion": (fused_lion_sides, ours("FusedLionBuilder"), None)}
    out = {}
    for millions in sys.argv[1:] or ("1", "10"):
        n = round(float(millions) * 1e6)
        for dtype, word in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            p, g = torch.randn(n).to(dtype), (torch.randn(n) * 0.01).to(dtype)
            sizes = [n // 20 - 1000, 1000] * 20  # sizes like those of weights and biases
            params, grads = list(p.split(sizes)), list(g.split(sizes))
            for op, (make, *modules) in makers.items():
                sides = make(*modules, p, g) if op.startswith("cpu") else make(*modules, params, grads)
                for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
                    torch.set_num_threads(threads)
                    for name, value in by_turns(sides, turns=3).items():
                        out[f"{name}_{op}_{word}_{millions}M_{threads}t_us"] = value
    print(json.dumps(out))


main()
