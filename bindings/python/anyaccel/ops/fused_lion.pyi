from collections.abc import Sequence

from torch import Tensor

def multi_tensor_lion(chunk_size: int, noop_flag: Tensor, tensor_lists: Sequence[Sequence[Tensor]], lr: float, beta1: float, beta2: float,
                      step: int, weight_decay: float) -> None:
    """Perform one step of Lion on lists of gradients, parameters and exp_avg.

    As in DeepSpeed, `noop_flag` is ignored.
    """
