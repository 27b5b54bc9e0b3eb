"""The function that DeepSpeed's FusedLambBuilder().load() provides: `lamb`, which DeepSpeed's
FusedLamb calls.
"""

from ._bind import Ops

_ops = Ops("FusedLambBuilder")


def lamb(p, p_copy, m, v, g, lr, beta1, beta2, max_coeff, min_coeff, eps, grad_scale, step, mode, bias_correction, decay):
    """Perform one step of LAMB on one tensor.

    Return the trust ratio, float32 of shape [1] on the parameters' device.

    An empty `p_copy` on any device means no copy; DeepSpeed passes one in host memory. `mode` 0
    adds eps inside the square root, 1 outside.
    """
    if p_copy.numel() == 0 and p_copy.device != p.device:
        p_copy = p.new_empty(0)  # a device's CPU fallback requires all tensors on one device
    return _ops.lamb(p, p_copy, m, v, g, lr, beta1, beta2, max_coeff, min_coeff, eps, grad_scale, step, mode,
                                   bias_correction, decay)
