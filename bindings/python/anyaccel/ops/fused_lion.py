"""The function that DeepSpeed's FusedLionBuilder().load() provides: `multi_tensor_lion`, which
DeepSpeed's FusedLion calls.
"""

from ._bind import Ops

_ops = Ops("FusedLionBuilder")


def multi_tensor_lion(chunk_size, noop_flag, tensor_lists, lr, beta1, beta2, step, weight_decay):
    """Perform one step of Lion on lists of gradients, parameters and exp_avg.

    As in DeepSpeed, `noop_flag` is ignored.
    """
    _ops.multi_tensor_lion(chunk_size, noop_flag, *tensor_lists, lr, beta1, beta2, step, weight_decay)
