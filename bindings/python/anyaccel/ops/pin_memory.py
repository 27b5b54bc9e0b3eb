"""What DeepSpeed's PinMemoryBuilder().load() has, and the pool's numbers. The manual is include/anyaccel/ops/pin_memory.h."""

import weakref

from .. import get_accelerator
from ._bind import Ops
from ._errors import telling

_ops = Ops("PinMemoryBuilder")
_telling = telling(lambda message: _ops.pin_memory_error_code(message))

# Blocks of the accelerator's allocator by address, while their tensors live: bytes, and whether the caller has freed them.
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
    if _given.get(address) is block:  # not a later one at the same address
        del _given[address]


def _block_at(address):
    for start, block in list(_given.items()):
        if start <= address < start + block.num_bytes:
            return block
    return None


def _free(address):
    """False when the accelerator's allocator gave no such block, or it was freed before."""
    block = _given.get(address)
    if block is None or block.freed:
        return False
    block.freed = True
    return True


def is_given(address):
    """Whether the address lies in a block that new_cpu_locked_tensor() took from the accelerator's allocator, freed or not."""
    return _block_at(address) is not None


def is_freed(tensor):
    """Whether the tensor lies in such a block that was freed: the memory stays valid while tensors use it, but is nobody's."""
    block = _block_at(tensor.data_ptr())
    return block is not None and block.freed


class pin_handle:
    """DeepSpeed's handle. All handles share one pool."""

    @_telling
    def new_cpu_locked_tensor(self, num_elem, example_tensor):
        """A pinned tensor of so many elements of the example's dtype, not initialized: from the accelerator's allocator,
        which its copies know, and locked by the system where the accelerator needs no pinning."""
        memory = get_accelerator().pin_empty(num_elem, dtype=example_tensor.dtype)
        if get_accelerator().is_pinned(memory):
            return _give(memory)
        return _ops.pin_memory_new(num_elem, example_tensor)

    def free_cpu_locked_tensor(self, locked_tensor):
        """Free a tensor of new_cpu_locked_tensor(); False if it is not one, or was freed. Its memory is reused once the last
        tensor in it is gone."""
        return _ops.pin_memory_free(locked_tensor) or _free(locked_tensor.data_ptr())

    def free_cpu_locked_tensor_by_ptr(self, address):
        """The same by `data_ptr()`."""
        return _ops.pin_memory_free_address(address) or _free(address)

    def is_pinned(self, buffer):
        """Views too."""
        return _pinned_by_accelerator(buffer) or _ops.pin_memory_is_pinned(buffer)


def _pinned_by_accelerator(tensor):
    return tensor.device.type == "cpu" and get_accelerator().is_pinned(tensor) and not is_freed(tensor)


def stats():
    """The pool's numbers: used_bytes, used_peak, held_bytes, held_peak, limit, taken, reused, misplaced."""
    return dict(_ops.pin_memory_stats())


def trim():
    """Gives free blocks back to the system."""
    _ops.pin_memory_trim()


@_telling
def set_limit(num_bytes):
    """The most that the pool may lock; 0: as much as the system lets it."""
    _ops.pin_memory_set_limit(num_bytes)


def __getattr__(name):
    if name == "PinMemoryBuilder":  # as in DeepSpeed's package of this name
        from . import op_builder
        return op_builder.PinMemoryBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
