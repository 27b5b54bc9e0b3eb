from collections.abc import Sequence

from torch import Tensor

def create_adam(optimizer_id: int, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, weight_decay: float = 0.0,
                adamw_mode: bool = True, should_log: bool = False) -> int:
    """Create an optimizer. It does not hold any tensors."""
def destroy_adam(optimizer_id: int) -> int:
    """Destroy the optimizer."""
def adam_update(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
                params: Tensor, grads: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> int:
    """Update one tensor in place. `step` counts from 1."""
def adam_update_list(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
                     params: Sequence[Tensor], grads: Sequence[Tensor], exp_avg: Sequence[Tensor], exp_avg_sq: Sequence[Tensor]) -> int:
    """Update several tensors in place. `step` counts from 1."""
def adam_rollback(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
                  params: Tensor, grads: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> int:
    """Undo an adam_update() call with the same arguments, up to rounding."""
def adam_rollback_list(optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
                       params: Sequence[Tensor], grads: Sequence[Tensor], exp_avg: Sequence[Tensor], exp_avg_sq: Sequence[Tensor]) -> int:
    """Undo an adam_update_list() call with the same arguments, up to rounding."""
def zenflow_adam_create(optimizer_id: int, affinity: Sequence[int]) -> int: ...
def zenflow_adam_register_group(handle: int, param: Tensor, grad0: Tensor, grad1: Tensor, exp_avg0: Tensor, exp_avg1: Tensor, exp_avg_sq0: Tensor,
                                exp_avg_sq1: Tensor, stale: Tensor | None) -> None: ...
def zenflow_adam_destroy(handle: int) -> None: ...
def zenflow_adam_ctrl_size() -> int: ...
def zenflow_adam_ctrl_init(control: int, num_groups: int) -> None: ...
def zenflow_adam_run_worker(handle: int, control: int) -> None: ...
def zenflow_adam_submit(control: int, now_state: int, step: int, lr: Sequence[float], beta1: Sequence[float], beta2: Sequence[float],
                        eps: Sequence[float], weight_decay: Sequence[float], bias_correction: Sequence[int]) -> None: ...
def zenflow_adam_wait(control: int, timeout_s: float) -> bool: ...
def zenflow_adam_ctrl_exit(control: int) -> None: ...
