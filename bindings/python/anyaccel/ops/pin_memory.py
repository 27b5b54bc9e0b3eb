"""What DeepSpeed's PinMemoryBuilder().load() has, and the pool's numbers. The manual is include/anyaccel/ops/pin_memory.h."""

import torch

from .. import get_accelerator
from ._errors import telling

_telling = telling(torch.ops.anyaccel.pin_memory_error_code)


class pin_handle:
    """DeepSpeed's handle. All handles share one pool."""

    @_telling
    def new_cpu_locked_tensor(self, num_elem, example_tensor):
        """A pinned tensor of so many elements of the example's dtype, not initialized: from the accelerator's allocator,
        which its copies know, and locked by the system where the accelerator needs no pinning."""
        memory = get_accelerator().pin_empty(num_elem, dtype=example_tensor.dtype)
        if get_accelerator().is_pinned(memory):
            return memory
        return torch.ops.anyaccel.pin_memory_new(num_elem, example_tensor)

    def free_cpu_locked_tensor(self, locked_tensor):
        """False when it is none of ours. The memory itself is used again when its last tensor is gone."""
        return torch.ops.anyaccel.pin_memory_free(locked_tensor) or _pinned_by_accelerator(locked_tensor)

    def free_cpu_locked_tensor_by_ptr(self, address):
        """The same by `data_ptr()`; for the system's locks alone."""
        return torch.ops.anyaccel.pin_memory_free_address(address)

    def is_pinned(self, buffer):
        """Views too."""
        return _pinned_by_accelerator(buffer) or torch.ops.anyaccel.pin_memory_is_pinned(buffer)


def _pinned_by_accelerator(tensor):
    return tensor.device.type == "cpu" and get_accelerator().is_pinned(tensor)


def stats():
    """The pool's numbers: used_bytes, used_peak, held_bytes, held_peak, limit, taken, reused, misplaced."""
    return dict(torch.ops.anyaccel.pin_memory_stats())


def trim():
    """Gives free blocks back to the system."""
    torch.ops.anyaccel.pin_memory_trim()


@_telling
def set_limit(num_bytes):
    """The most that the pool may lock; 0: as much as the system lets it."""
    torch.ops.anyaccel.pin_memory_set_limit(num_bytes)
