from typing import Sequence

from torch import Tensor

def allocate_fast_host_buffer(device_mirror: Tensor) -> Tensor:
    """Return an uninitialized host tensor with the shape and dtype of `device_mirror`."""
def allocate_view_on(tensor: Tensor, buffer: Tensor, offset: int) -> Tensor:
    """Return a tensor with the shape, strides and dtype of `tensor` in the memory of `buffer`,
    at a byte offset."""
def allocate_view_like(shape: Sequence[int], strides: Sequence[int], dummy_tensor: Tensor, buffer: Tensor, offset: int) -> Tensor:
    """Return a tensor with this shape and these strides, and the dtype of `dummy_tensor`, in the
    memory of `buffer`, at a byte offset."""
