from torch import Tensor

class pin_handle:
    """DeepSpeed's handle. All handles share one pool."""

    def new_cpu_locked_tensor(self, num_elem: int, example_tensor: Tensor) -> Tensor:
        """Return an uninitialized pinned tensor of `num_elem` elements with the example's dtype."""
    def free_cpu_locked_tensor(self, locked_tensor: Tensor) -> bool:
        """Free a tensor that new_cpu_locked_tensor() returned.

        Return False for any other tensor, and for a tensor that is already freed. The memory is
        reused once no tensor uses it.
        """
    def free_cpu_locked_tensor_by_ptr(self, address: int) -> bool:
        """Like free_cpu_locked_tensor(), with the tensor's `data_ptr()`."""
    def is_pinned(self, buffer: Tensor) -> bool:
        """Return whether the tensor, or the tensor that it is a view of, is pinned."""

def is_given(address: int) -> bool:
    """Return whether the address is in a block that new_cpu_locked_tensor() got from the
    accelerator's allocator, even if the block has been freed.
    """
def is_freed(tensor: Tensor) -> bool:
    """Return whether the tensor is in a freed block from the accelerator's allocator."""
def stats() -> dict[str, int]:
    """Return the pool's statistics: used_bytes, used_peak, held_bytes, held_peak, limit, taken,
    reused, misplaced."""
def trim() -> None:
    """Return free blocks to the system."""
def set_limit(num_bytes: int) -> None:
    """Set the maximum number of bytes that the pool may lock; 0: only the system's limit applies.
    """
