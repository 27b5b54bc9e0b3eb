from collections.abc import Sequence

from torch import Tensor

def create_lion(optimizer_id: int, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, weight_decay: float = 0.0,
                should_log: bool = False) -> int:
    """Makes an optimizer, which has no tensors of its own."""
def destroy_lion(optimizer_id: int) -> int:
    """Forgets it."""
def lion_update(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, weight_decay: float, params: Tensor, grads: Tensor,
                exp_avg: Tensor) -> int:
    """One step of one tensor, in place; `step` counts from 1."""
def lion_update_list(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, weight_decay: float, params: Sequence[Tensor],
                     grads: Sequence[Tensor], exp_avg: Sequence[Tensor]) -> int:
    """The same of several tensors in one call."""
