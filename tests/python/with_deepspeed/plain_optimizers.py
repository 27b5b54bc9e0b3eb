"""Optimizers that torch lacks, written according to their papers and DeepSpeed's documentation, in
float32 on the host.
"""

import math

import torch


class _Plain(torch.optim.Optimizer):

    def __init__(self, params, **options):
        super().__init__(params, options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                self.rule(p, p.grad, state, group)


class AdamW(_Plain):
    """AdamW without bias correction."""

    def rule(self, p, g, state, group):
        b1, b2 = group["betas"]
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(group["lr"] * state["m"] / (state["v"].sqrt() + group["eps"]))


class Lion(_Plain):

    def rule(self, p, g, state, group):
        b1, b2 = group["betas"]
        update = (b1 * state["m"] + (1 - b1) * g).sign()
        p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * update)
        state["m"].mul_(b2).add_(g, alpha=1 - b2)


class Lamb(_Plain):
    """DeepSpeed's variant of LAMB: the trust ratio is between 0.01 and 10, eps is added outside the
    square root, and the learning rate includes the bias correction.
    """

    def rule(self, p, g, state, group):
        b1, b2 = group["betas"]
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
        update = state["m"] / (state["v"].sqrt() + group["eps"]) + group["weight_decay"] * p
        ratio = min(max((p.norm() / update.norm()).item(), 0.01), 10.0)
        rate = group["lr"] * math.sqrt(1 - b2**state["step"]) / (1 - b1**state["step"])
        p.sub_(rate * ratio * update)
