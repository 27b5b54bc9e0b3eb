from typing import Sequence

from torch import Tensor

def allocate_fast_host_buffer(device_mirror: Tensor) -> Tensor:
    """Host memory for a tensor of that shape and dtype. It holds no numbers yet."""
def allocate_view_on(tensor: Tensor, buffer: Tensor, offset: int) -> Tensor:
    """A tensor of the shape, strides and dtype of `tensor` in the memory of `buffer`, `offset` bytes behind its begin."""
def allocate_view_like(shape: Sequence[int], strides: Sequence[int], dummy_tensor: Tensor, buffer: Tensor, offset: int) -> Tensor:
    """The same for a shape and strides, of the dtype of `dummy_tensor`."""
