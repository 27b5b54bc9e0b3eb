"""The functions that DeepSpeed's PinMemoryBuilder().load() returns, and the pool's statistics.

See include/anyaccel/ops/pin_memory.h.
"""

import weakref

from .._native import get_accelerator
from ._bind import Ops
from ._errors import telling

_ops = Ops("PinMemoryBuilder")
_telling = telling(lambda message: _ops.pin_memory_error_code(message))

# Blocks from the accelerator's allocator, by address. A block is removed when its tensor is
# destroyed.
_given = {}


class _Block:

    def __init__(self, num_bytes):
        self.num_bytes = num_bytes
        self.freed = False


def _give(memory):
    address = memory.data_ptr()
    block = _given[address] = _Block(memory.nbytes)
    weakref.finalize(memory, _forget, address, block).atexit = False
    return memory


def _forget(address, block):
    if _given.get(address) is block:  # not a newer block at the same address
        del _given[address]


def _block_at(address):
    for start, block in list(_given.items()):
        if start <= address < start + block.num_bytes:
            return block
    return None


def _free(address):
    """Free a block from the accelerator's allocator.

    Returns False if the address is unknown or the block is already freed.
    """
    block = _given.get(address)
    if block is None or block.freed:
        return False
    block.freed = True
    return True


def is_given(address):
    """Return whether the address is in a block that new_cpu_locked_tensor() got from the
    accelerator's allocator, even if the block has been freed.
    """
    return _block_at(address) is not None


def is_freed(tensor):
    """Return whether the tensor is in a freed block from the accelerator's allocator.

    The block's memory stays valid while tensors use it.
    """
    block = _block_at(tensor.data_ptr())
    return block is not None and block.freed


class pin_handle:
    """DeepSpeed's handle. All handles share one pool."""

    @_telling
    def new_cpu_locked_tensor(self, num_elem, example_tensor):
        """Return an uninitialized pinned tensor of `num_elem` elements with the example's dtype.

        The memory comes from the accelerator's allocator, so the accelerator's copy operations
        recognize it as pinned. If the accelerator does not pin memory, the tensor comes from the
        op's pool of locked memory.
        """
        memory = get_accelerator().pin_empty(num_elem, dtype=example_tensor.dtype)
        if get_accelerator().is_pinned(memory):
            return _give(memory)
        return _ops.pin_memory_new(num_elem, example_tensor)

    def free_cpu_locked_tensor(self, locked_tensor):
        """Free a tensor that new_cpu_locked_tensor() returned.

        Returns False for any other tensor, and for a tensor that is already freed. The memory is
        reused once no tensor uses it.
        """
        return _ops.pin_memory_free(locked_tensor) or _free(locked_tensor.data_ptr())

    def free_cpu_locked_tensor_by_ptr(self, address):
        """Like free_cpu_locked_tensor(), with the tensor's `data_ptr()`."""
        return _ops.pin_memory_free_address(address) or _free(address)

    def is_pinned(self, buffer):
        """Return whether the tensor, or the tensor that it is a view of, is pinned."""
        return _pinned_by_accelerator(buffer) or _ops.pin_memory_is_pinned(buffer)


def _pinned_by_accelerator(tensor):
    return tensor.device.type == "cpu" and get_accelerator().is_pinned(tensor) and not is_freed(tensor)


def stats():
    """Return the pool's statistics: used_bytes, used_peak, held_bytes, held_peak, limit, taken,
    reused, misplaced."""
    return dict(_ops.pin_memory_stats())


def trim():
    """Return free blocks to the system."""
    _ops.pin_memory_trim()


@_telling
def set_limit(num_bytes):
    """Set the maximum number of bytes that the pool may lock; 0: only the system's limit applies.
    """
    _ops.pin_memory_set_limit(num_bytes)


def __getattr__(name):
    if name == "PinMemoryBuilder":  # as in DeepSpeed's package of this name
        from . import op_builder
        return op_builder.PinMemoryBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
