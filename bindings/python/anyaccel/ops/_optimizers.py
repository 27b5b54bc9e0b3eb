"""Base classes for the optimizers that have DeepSpeed's names. They implement the loop over
parameters, and keep the state in DeepSpeed's format.
"""

import itertools
import weakref
from collections import defaultdict

import torch

from .._native import get_accelerator
from ..errors import make_error

# The ops identify optimizers by number. DeepSpeed's own classes count from 0, so numbers here start
# at a large value.
_numbers = itertools.count(1 << 30)


class Optimizer(torch.optim.Optimizer):
    """Base class for the optimizers that have DeepSpeed's names."""

    def _refuse_amsgrad(self, amsgrad):
        if amsgrad:
            raise make_error("unsupported", type(self).__name__, "AMSGrad is not supported", got="amsgrad=True", want="amsgrad=False")

    @torch.no_grad()
    def step(self, closure=None):
        """Update all parameters that have a gradient.

        Returns the loss that `closure` recomputes, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update_group(group, [parameter for parameter in group["params"] if parameter.grad is not None])
        return loss

    def _state_of(self, parameter, names, dtype=None):
        """Return a parameter's state, creating it on the first step."""
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            for name in names:
                state[name] = torch.zeros_like(parameter, dtype=dtype)
        return state


class HostOptimizer(Optimizer):
    """Base class for optimizers whose parameters are in host memory. Calls the op once per
    parameter.
    """

    _NAMES = ("exp_avg", "exp_avg_sq")

    def _start(self, builder, kind, fp32_optimizer_states, *options):
        self.opt_id = next(_numbers)
        self.fp32_optimizer_states = fp32_optimizer_states
        self._op = get_accelerator().create_op_builder(builder).load()
        getattr(self._op, f"create_{kind}")(self.opt_id, *options)
        weakref.finalize(self, getattr(self._op, f"destroy_{kind}"), self.opt_id).atexit = False

    def load_state_dict(self, state_dict):
        """Like torch.optim.Optimizer.load_state_dict(), but states keep their saved dtype instead
        of being cast to the parameters' dtype.
        """
        super().load_state_dict(state_dict)
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for number, parameter in zip(numbers, parameters):
            for name in self._NAMES:
                saved = state_dict["state"].get(number, {}).get(name)
                if saved is not None and saved.dtype != self.state[parameter][name].dtype:
                    self.state[parameter][name] = saved.to(device=parameter.device, copy=True)

    def _update_group(self, group, parameters):
        for parameter in parameters:
            if parameter.device.type != "cpu":
                raise make_error("invalid_argument", type(self).__name__, "the parameters must be on the CPU", got=f"device {parameter.device}",
                                 want="device cpu", hint="use the corresponding Fused optimizer for device parameters")
            state = self._state_of(parameter, self._NAMES, torch.float32 if self.fp32_optimizer_states else None)
            state["step"] += 1
            self._update(group, state, parameter)


class FusedOptimizer(Optimizer):
    """Base class for optimizers that update many parameters on a device in one call."""

    _NAMES = ("exp_avg", "exp_avg_sq")
    _CHUNK = 2048 * 32  # required by the binding's signature; our kernels ignore it

    def zero_grad(self, set_to_none=None):
        """Reset the gradients to None or to zero.

        The default is the constructor's `set_grad_none`.
        """
        super().zero_grad(set_to_none=self.set_grad_none if set_to_none is None else set_to_none)

    def _update_group(self, group, parameters):
        alike = defaultdict(list)
        for parameter in parameters:
            if parameter.grad.is_sparse:
                raise make_error("unsupported", type(self).__name__, "sparse gradients are not supported", want="dense gradients",
                                 hint="use torch.optim.SparseAdam")
            if parameter.dtype not in (torch.float32, torch.float16, torch.bfloat16):
                raise make_error("unsupported", type(self).__name__, "unsupported parameter dtype", got=str(parameter.dtype),
                                 want="float32, float16 or bfloat16")
            state = self._state_of(parameter, self._NAMES)
            state["step"] += 1
            alike[parameter.device, parameter.dtype, state["step"]].append((parameter.grad, parameter, *(state[name] for name in self._NAMES)))
        for (device, _, step), rows in alike.items():
            self._update(group, step, torch.zeros(1, dtype=torch.int32, device=device), [list(column) for column in zip(*rows)])
