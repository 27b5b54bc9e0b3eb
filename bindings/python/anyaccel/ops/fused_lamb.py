"""What DeepSpeed's FusedLambBuilder().load() has: `lamb`, which its FusedLamb calls."""

from ._bind import Ops

_ops = Ops("FusedLambBuilder")


def lamb(p, p_copy, m, v, g, lr, beta1, beta2, max_coeff, min_coeff, eps, grad_scale, step, mode, bias_correction, decay):
    """A step of LAMB on one tensor; the coefficient that held, float32 of shape [1] on the parameters' device.

    An empty `p_copy` is none, wherever it is: DeepSpeed gives one in host memory. `mode` 0 adds eps below the root, 1 beside it."""
    if p_copy.numel() == 0 and p_copy.device != p.device:
        p_copy = p.new_empty(0)  # a device's fallback to the CPU takes tensors of one device
    return _ops.lamb(p, p_copy, m, v, g, lr, beta1, beta2, max_coeff, min_coeff, eps, grad_scale, step, mode,
                                   bias_correction, decay)
