"""Counterpart of the DeepSpeed module with the same name."""

from ..._native import get_accelerator
from .._optimizers import FusedOptimizer


class FusedLion(FusedOptimizer):
    """Lion, using the op fused_lion.

    Arguments are the same as in DeepSpeed. Each parameter has its own step count.
    """

    _NAMES = ("exp_avg",)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), weight_decay=0., set_grad_none=True):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        self.set_grad_none = set_grad_none
        self.multi_tensor_lion = get_accelerator().create_op_builder("FusedLionBuilder").load().multi_tensor_lion

    def _update(self, group, step, flag, lists):
        self.multi_tensor_lion(self._CHUNK, flag, lists, group["lr"], *group["betas"], step, group["weight_decay"])
