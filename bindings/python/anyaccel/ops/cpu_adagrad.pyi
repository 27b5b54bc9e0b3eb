from collections.abc import Sequence

from torch import Tensor

def create_adagrad(optimizer_id: int, lr: float = 0.01, eps: float = 1e-08, weight_decay: float = 0.0, should_log: bool = False) -> int:
    """Create an optimizer. It does not hold any tensors."""
def destroy_adagrad(optimizer_id: int) -> int:
    """Destroy the optimizer."""
def adagrad_update(optimizer_id: int, step: int, lr: float, eps: float, weight_decay: float, params: Tensor, grads: Tensor, exp_avg_sq: Tensor) -> int:
    """Update one tensor in place. `step` counts from 1."""
def adagrad_update_list(optimizer_id: int, step: int, lr: float, eps: float, weight_decay: float, params: Sequence[Tensor], grads: Sequence[Tensor],
                        exp_avg_sq: Sequence[Tensor]) -> int:
    """Update several tensors in place. `step` counts from 1."""
