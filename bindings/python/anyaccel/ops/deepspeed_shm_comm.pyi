from torch import Tensor
from torch.distributed import ProcessGroup

def initialize(size: int | None = None, rank: int | None = None, group: ProcessGroup | None = None, timeout: float = 1800.0) -> str:
    """Makes the group ready. Returns why shared memory is not used, or an empty string."""
def reason(group: ProcessGroup | None = None) -> str:
    """Why the group goes through torch.distributed; empty when it shares memory."""
def close(group: ProcessGroup | None = None) -> None:
    """Forgets the group. The others get an error when they go on."""
def vector_kernel_level() -> int: ...
def inference_all_reduce(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor:
    """In place. `op`: sum, avg, product, min or max."""
def all_reduce(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor: ...
def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The tensors of all ranks one after the other along the first dimension."""
def reduce_scatter(tensor: Tensor, op: str = "sum", group: ProcessGroup | None = None) -> Tensor:
    """This rank's part, along the first dimension, of the reduced tensor."""
def broadcast(tensor: Tensor, source: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """In place, from the rank `source` of the group."""
def barrier(group: ProcessGroup | None = None) -> None:
    """Waits until all ranks have come."""
