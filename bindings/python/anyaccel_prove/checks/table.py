"""Types that describe the cases of the op checks."""

import dataclasses
from collections.abc import Callable, Sequence

import torch

# Empty, one element, fewer elements than a vector, one element more than a vector, and a number
# that is not a multiple of any vector width or block size.
SIZES = (0, 1, 3, 17, 1003)
FLOATS = ("float32", "bfloat16", "float16")
# Largest allowed error, relative to the largest magnitude of the expected tensor.
ERRORS = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Draw:
    """Random inputs from a seed, in host memory."""
    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def normal(self, *shape, dtype=torch.float32, scale=1.0):
        return (torch.randn(shape, generator=self.random) * scale).to(dtype)

    def positive(self, *shape, dtype=torch.float32):
        return torch.rand(shape, generator=self.random).to(dtype)

    def integers(self, low, high, *shape, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.random).to(dtype)

    def chosen(self, rows, total, count):
        """Return `count` different numbers below `total` for each row, as int32."""
        found = [torch.randperm(total, generator=self.random)[:count] for _ in range(rows)]
        return (torch.stack(found) if found else torch.zeros(0, count)).to(torch.int32)


@dataclasses.dataclass(frozen=True)
class Case:
    """One function of an op.

    `make(draw, size, dtype)` returns the inputs in host memory. `call(module, tensors)` calls the
    op with them, or with copies on the device, and returns the results and the tensors that it
    changed. `plain(tensors)` computes the same function with torch's ops in float64, as a reference
    for the CPU's results.
    """

    name: str
    make: Callable[..., list]
    call: Callable[..., Sequence]
    sizes: tuple = SIZES
    dtypes: tuple = ("float32", )
    grads: tuple = ()  # numbers of the inputs whose gradients are compared
    exact: bool = False  # the device's results have the same bits as the CPU's
    looser: float = 1.0  # factor on ERRORS
    plain: Callable[..., Sequence] | None = None
    pinned: bool = False  # the op works in host memory: its inputs are pinned instead of copied
    no_graph: str = ""  # why the op cannot be captured
    fixed: tuple = ()  # numbers of the inputs that a graph may read at capture
    host_only: bool = False  # the op may lack a kernel for the device; the check is then skipped
