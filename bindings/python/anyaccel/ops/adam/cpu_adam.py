"""Counterpart of the DeepSpeed module with the same name."""

import torch

from ...errors import make_error
from .._optimizers import HostOptimizer


class DeepSpeedCPUAdam(HostOptimizer):
    """Adam (`adamw_mode=False`) or AdamW for parameters in host memory, using the op cpu_adam.

    Arguments, state and results are the same as in DeepSpeed. The state is float32; with
    `fp32_optimizer_states=False` it has the parameters' dtype.
    """

    def __init__(self, model_params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, adamw_mode=True,
                 fp32_optimizer_states=True):
        self._refuse_amsgrad(amsgrad)
        super().__init__(model_params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": bias_correction,
                                        "amsgrad": amsgrad})
        self.adam_w_mode = adamw_mode
        self._start("CPUAdamBuilder", "adam", fp32_optimizer_states, lr, *betas, eps, weight_decay, adamw_mode, False)
        self.ds_opt_adam = self._op

    def add_param_group(self, param_group):
        self._refuse_amsgrad(param_group.get("amsgrad", False))
        super().add_param_group(param_group)

    def _options(self, group, state):
        return self.opt_id, state["step"], group["lr"], *group["betas"], group["eps"], group["weight_decay"], group["bias_correction"]

    def _update(self, group, state, parameter):
        self._op.adam_update(*self._options(group, state), parameter.data, parameter.grad.data, state["exp_avg"], state["exp_avg_sq"])

    @torch.no_grad()
    def step_subgroup(self, subgroup_id, closure=None):
        """Like step(), but stores the state under a subgroup's number.

        DeepSpeed passes one parameter at a time.
        """
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group, parameter in self._with_gradients():
            state = self.state[subgroup_id]
            if not state:
                dtype = torch.float32 if self.fp32_optimizer_states else None
                state.update(step=0, **{name: torch.zeros_like(parameter, dtype=dtype) for name in self._NAMES})
            state["step"] += 1
            self._update(group, state, parameter)
        return loss

    @torch.no_grad()
    def rollback_subgroup(self, sub_group_id, closure=None):
        """Undo the last step of a subgroup, up to rounding."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        state = self.state.get(sub_group_id)
        if not state or state["step"] < 1:
            raise make_error("invalid_state", "rollback_subgroup", "the subgroup has no step to undo", got=f"subgroup {sub_group_id}")
        for group, parameter in self._with_gradients():
            self._op.adam_rollback(*self._options(group, state), parameter.data, parameter.grad.data, state["exp_avg"], state["exp_avg_sq"])
            state["step"] -= 1
        return loss

    def _with_gradients(self):
        return [(group, parameter) for group in self.param_groups for parameter in group["params"] if parameter.grad is not None]
