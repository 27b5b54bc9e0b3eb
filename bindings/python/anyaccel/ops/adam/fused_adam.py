"""Counterpart of the DeepSpeed module with the same name."""

from ..._native import get_accelerator
from .._optimizers import FusedOptimizer


class FusedAdam(FusedOptimizer):
    """Adam (`adam_w_mode=False`) or AdamW, using the op fused_adam.

    Arguments are the same as in DeepSpeed. Each parameter has its own step count.
    """

    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8, adam_w_mode=True, weight_decay=0., amsgrad=False,
                 set_grad_none=True):
        self._refuse_amsgrad(amsgrad)
        super().__init__(params, {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.multi_tensor_adam = get_accelerator().create_op_builder("FusedAdamBuilder").load().multi_tensor_adam

    def _update(self, group, step, flag, lists):
        self.multi_tensor_adam(self._CHUNK, flag, lists, group["lr"], *group["betas"], group["eps"], step, self.adam_w_mode,
                               int(group["bias_correction"]), group["weight_decay"])
