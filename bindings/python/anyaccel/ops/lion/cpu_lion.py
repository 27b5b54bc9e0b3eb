"""Counterpart of the DeepSpeed module with the same name."""

from .._optimizers import HostOptimizer


class DeepSpeedCPULion(HostOptimizer):
    """Lion for parameters in host memory, using the op cpu_lion.

    Arguments and state are the same as in DeepSpeed.
    """

    def __init__(self, model_params, lr=1e-3, betas=(0.9, 0.999), weight_decay=0, fp32_optimizer_states=True):
        super().__init__(model_params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        self._start("CPULionBuilder", "lion", fp32_optimizer_states, lr, *betas, weight_decay, False)
        self.ds_opt_lion = self._op

    _NAMES = ("exp_avg",)

    def _update(self, group, state, parameter):
        self._op.lion_update(self.opt_id, state["step"], group["lr"], *group["betas"], group["weight_decay"], parameter.data, parameter.grad.data,
                             state["exp_avg"])
