"""Counterpart of the DeepSpeed module with the same name."""

import torch

from ..._native import get_accelerator
from ...errors import make_error
from .._optimizers import Optimizer


class FusedLamb(Optimizer):
    """LAMB, using the op fused_lamb. Arguments are the same as in DeepSpeed."""

    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8, eps_inside_sqrt=False, weight_decay=0.,
                 max_grad_norm=0., max_coeff=10.0, min_coeff=0.01, amsgrad=False):
        self._refuse_amsgrad(amsgrad)
        super().__init__(params, {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "max_grad_norm": max_grad_norm, "max_coeff": max_coeff, "min_coeff": min_coeff})
        self.eps_mode = 0 if eps_inside_sqrt else 1
        self.lamb_coeffs = []
        self._lamb = get_accelerator().create_op_builder("FusedLambBuilder").load().lamb

    @torch.no_grad()
    def step(self, closure=None, grads=None, output_params=None, scale=1., grad_norms=None):
        """Update all parameters.

        The arguments other than `closure` support DeepSpeed's mixed precision. `grads` replaces the
        gradients, and `output_params` receives a copy of the new parameters; both are lists, or one
        list per group. Gradients are divided by `scale`. `grad_norms` contains the norm of each
        scaled gradient, or one norm per group, for clipping by `max_grad_norm`.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.lamb_coeffs = []
        groups = zip(self.param_groups, self._by_group(grads), self._by_group(output_params), self._norms(grad_norms))
        for group, gradients, outputs, norms in groups:
            for parameter, gradient, output, norm in zip(group["params"], gradients, outputs, norms):
                gradient = parameter.grad if gradient is None else gradient
                if gradient is not None:
                    self._update(group, parameter, gradient.data, output, self._combined(scale, norm, group["max_grad_norm"]))
        return loss

    def get_lamb_coeffs(self):
        """Return the trust ratios from the last step, one per parameter."""
        return [coefficient.item() for coefficient in self.lamb_coeffs]

    def _update(self, group, parameter, gradient, output, scale):
        if gradient.is_sparse:
            raise make_error("unsupported", "FusedLamb", "sparse gradients are not supported", want="dense gradients")
        state = self._state_of(parameter, ("exp_avg", "exp_avg_sq"))
        state["step"] += 1
        copy = torch.empty(0, device=parameter.device) if output is None else output
        self.lamb_coeffs.append(self._lamb(parameter.data, copy, state["exp_avg"], state["exp_avg_sq"], gradient, group["lr"], *group["betas"],
                                           group["max_coeff"], group["min_coeff"], group["eps"], scale, state["step"], self.eps_mode,
                                           int(group["bias_correction"]), group["weight_decay"]))

    @staticmethod
    def _combined(scale, norm, most):
        """Return the divisor of a gradient: the scale times the clipping factor."""
        if most <= 0 or norm is None:
            return scale
        return float(scale * max(1.0, (float(norm) / scale + 1e-6) / most))

    def _by_group(self, given):
        """Return one list per group, with the given values or None for each parameter."""
        if given is None:
            return [[None] * len(group["params"]) for group in self.param_groups]
        given = list(given)
        return given if given and isinstance(given[0], list) else [given]

    def _norms(self, given):
        if given is None:
            return [[None] * len(group["params"]) for group in self.param_groups]
        return [norms if isinstance(norms, list) else [norms] * len(group["params"]) for group, norms in zip(self.param_groups, given)]
