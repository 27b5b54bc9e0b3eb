from torch import Tensor

def lamb(p: Tensor, p_copy: Tensor, m: Tensor, v: Tensor, g: Tensor, lr: float, beta1: float, beta2: float, max_coeff: float, min_coeff: float,
         eps: float, grad_scale: float, step: int, mode: int, bias_correction: int, decay: float) -> Tensor:
    """Perform one step of LAMB on one tensor.

    Return the trust ratio, float32 of shape [1] on the parameters' device.
    """
