from collections.abc import Sequence

from torch import Tensor

def multi_tensor_adam(chunk_size: int, noop_flag: Tensor, tensor_lists: Sequence[Sequence[Tensor]], lr: float, beta1: float, beta2: float,
                      eps: float, step: int, mode: int, bias_correction: int, weight_decay: float) -> None:
    """Perform one step of Adam (mode 0: L2 decay) or AdamW (mode 1) on lists of gradients,
    parameters, exp_avg and exp_avg_sq.
    """
