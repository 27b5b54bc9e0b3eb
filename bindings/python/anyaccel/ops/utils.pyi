from collections.abc import Sequence
from typing import overload

from torch import Tensor

@overload
def cast_to_byte_tensor(src_tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor as a one-dimensional uint8 view, or a list of such
    views for a list of tensors."""
@overload
def cast_to_byte_tensor(src_tensor: Sequence[Tensor]) -> list[Tensor]: ...
