from collections.abc import Sequence

from torch import Tensor

def create_lion(optimizer_id: int, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, weight_decay: float = 0.0,
                should_log: bool = False) -> int:
    """Create an optimizer. It does not hold any tensors."""
def destroy_lion(optimizer_id: int) -> int:
    """Destroy the optimizer."""
def lion_update(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, weight_decay: float, params: Tensor, grads: Tensor,
                exp_avg: Tensor) -> int:
    """Update one tensor in place. `step` counts from 1."""
def lion_update_list(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, weight_decay: float, params: Sequence[Tensor],
                     grads: Sequence[Tensor], exp_avg: Sequence[Tensor]) -> int:
    """Update several tensors in place. `step` counts from 1."""
