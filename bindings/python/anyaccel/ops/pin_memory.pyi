from torch import Tensor

class pin_handle:
    """DeepSpeed's handle. All handles share one pool."""

    def new_cpu_locked_tensor(self, num_elem: int, example_tensor: Tensor) -> Tensor:
        """A pinned tensor of so many elements of the example's dtype, not initialized."""
    def free_cpu_locked_tensor(self, locked_tensor: Tensor) -> bool:
        """False when it is none of ours. The memory itself is used again when its last tensor is gone."""
    def free_cpu_locked_tensor_by_ptr(self, address: int) -> bool:
        """The same by `data_ptr()`; for the system's locks alone."""
    def is_pinned(self, buffer: Tensor) -> bool:
        """Views too."""

def is_given(address: int) -> bool:
    """Whether the address lies in a block that new_cpu_locked_tensor() took from the accelerator's allocator, freed or not."""
def is_freed(tensor: Tensor) -> bool:
    """Whether the tensor lies in such a block that was freed."""
def stats() -> dict[str, int]:
    """The pool's numbers: used_bytes, used_peak, held_bytes, held_peak, limit, taken, reused, misplaced."""
def trim() -> None:
    """Gives free blocks back to the system."""
def set_limit(num_bytes: int) -> None:
    """The most that the pool may lock; 0: as much as the system lets it."""
