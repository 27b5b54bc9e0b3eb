"""The functions that DeepSpeed's UtilsBuilder().load() returns."""

from ._bind import Ops

_ops = Ops("UtilsBuilder")


def cast_to_byte_tensor(src_tensor):
    """Return the bytes of a contiguous tensor as a one-dimensional uint8 view, or a list of such
    views for a list of tensors."""
    if isinstance(src_tensor, (list, tuple)):
        return [cast_to_byte_tensor(tensor) for tensor in src_tensor]
    return _ops.cast_to_byte_tensor(src_tensor)
