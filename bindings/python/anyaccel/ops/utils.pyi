from collections.abc import Sequence
from typing import overload

from torch import Tensor

@overload
def cast_to_byte_tensor(src_tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor as a one-dimensional uint8 view; of a list of tensors, the list of theirs."""
@overload
def cast_to_byte_tensor(src_tensor: Sequence[Tensor]) -> list[Tensor]: ...
