"""Counterpart of the DeepSpeed module with the same name."""

from .._optimizers import HostOptimizer


class DeepSpeedCPUAdagrad(HostOptimizer):
    """Adagrad for parameters in host memory, using the op cpu_adagrad.

    Gradients may be sparse. Arguments and state are the same as in DeepSpeed.
    """

    _NAMES = ("exp_avg_sq",)

    def __init__(self, model_params, lr=1e-2, eps=1e-10, weight_decay=0, amsgrad=False, fp32_optimizer_states=True):
        self._refuse_amsgrad(amsgrad)
        super().__init__(model_params, {"lr": lr, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad})
        self._start("CPUAdagradBuilder", "adagrad", fp32_optimizer_states, lr, eps, weight_decay, False)
        self.ds_opt_adagrad = self._op

    def _update(self, group, state, parameter):
        options = (self.opt_id, state["step"], group["lr"], group["eps"], group["weight_decay"])
        gradient = parameter.grad.data
        if not gradient.is_sparse:
            self._op.adagrad_update(*options, parameter.data, gradient, state["exp_avg_sq"])
            return
        gradient = gradient.coalesce()
        rows = tuple(gradient.indices())
        values, squares = parameter.data[rows], state["exp_avg_sq"][rows]
        self._op.adagrad_update(*options, values, gradient.values(), squares)
        parameter.data[rows] = values
        state["exp_avg_sq"][rows] = squares
