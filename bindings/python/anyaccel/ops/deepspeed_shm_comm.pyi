from torch import Tensor
from torch.distributed import ProcessGroup

def initialize(size: int | None = None, rank: int | None = None, group: ProcessGroup | None = None, timeout: float = 1800.0) -> str:
    """Initialize the group. Return the reason why shared memory is not used, or "" if it is used.
    """
def reason(group: ProcessGroup | None = None) -> str:
    """Return the reason why the group uses torch.distributed, or "" if it uses shared memory."""
def close(group: ProcessGroup | None = None) -> None:
    """Close the group. Further operations on other ranks fail."""
def vector_kernel_level() -> int: ...
def inference_all_reduce(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor:
    """All-reduce in place. `op` is sum, avg, product, min or max."""
def all_reduce(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor: ...
def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Return the tensors of all ranks, concatenated along the first dimension."""
def reduce_scatter(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor:
    """Return this rank's part of the reduced tensor, along the first dimension."""
def broadcast(tensor: Tensor, source: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """Broadcast in place from rank `source` of the group."""
def barrier(group: ProcessGroup | None = None) -> None:
    """Wait until all ranks have called barrier()."""
