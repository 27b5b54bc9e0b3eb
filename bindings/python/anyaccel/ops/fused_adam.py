"""The function that DeepSpeed's FusedAdamBuilder().load() provides: `multi_tensor_adam`, which
DeepSpeed's FusedAdam calls.
"""

from ._bind import Ops

_ops = Ops("FusedAdamBuilder")


def multi_tensor_adam(chunk_size, noop_flag, tensor_lists, lr, beta1, beta2, eps, step, mode, bias_correction, weight_decay):
    """Perform one step of Adam (mode 0: L2 decay) or AdamW (mode 1) on lists of gradients,
    parameters, exp_avg and exp_avg_sq.

    As in DeepSpeed, `noop_flag` is ignored, so infinities and NaNs propagate to the parameters.
    """
    _ops.multi_tensor_adam(chunk_size, noop_flag, *tensor_lists, lr, beta1, beta2, eps, step, mode,
                                         bias_correction, weight_decay)
