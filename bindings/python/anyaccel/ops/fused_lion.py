"""The function of DeepSpeed's FusedLionBuilder().load(): `multi_tensor_lion`, which its
FusedLion calls."""

from ._bind import Ops

_ops = Ops("FusedLionBuilder")


def multi_tensor_lion(chunk_size, noop_flag, tensor_lists, lr, beta1, beta2, step, weight_decay):
    """Do a step of Lion on lists of gradients, parameters and exp_avg.

    As in DeepSpeed, `noop_flag` is ignored.
    """
    _ops.multi_tensor_lion(chunk_size, noop_flag, *tensor_lists, lr, beta1, beta2, step, weight_decay)
