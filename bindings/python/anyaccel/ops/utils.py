"""What DeepSpeed's UtilsBuilder().load() has."""

from ._bind import Ops

_ops = Ops("UtilsBuilder")


def cast_to_byte_tensor(src_tensor):
    """The bytes of a contiguous tensor as a one-dimensional uint8 view; of a list of tensors, the list of theirs."""
    if isinstance(src_tensor, (list, tuple)):
        return [cast_to_byte_tensor(tensor) for tensor in src_tensor]
    return _ops.cast_to_byte_tensor(src_tensor)
