"""The functions that DeepSpeed's ShareMemCommBuilder().load() returns, and collectives on groups.

A group is an initialized group of torch.distributed, or None for all ranks. All ranks of a group
must take part in its first operation. Failures raise `anyaccel.Error`, except in
torch.ops.deepspeed.inference_all_reduce(_), which raises torch's RuntimeError with the same text.
"""

from torch import distributed

from ._bind import Ops
from ._errors import telling

_TIMEOUT = 1800.0
_ops = Ops("ShareMemCommBuilder")
_telling = telling(lambda message: _ops.shm_comm_error_code(message))


def _name(group=None):
    group = distributed.distributed_c10d._get_default_group() if group is None else group
    return group.group_name


@_telling
def initialize(size=None, rank=None, group=None, timeout=_TIMEOUT):
    """Initialize the group, also for torch.ops.deepspeed.inference_all_reduce(_).

    Return the reason why shared memory is not used, or "" if it is used.

    `timeout` is the time limit for each operation in seconds, also for a group that is already
    initialized. A group that failed must first be closed on every rank. A group whose process group
    was destroyed is recreated.
    """
    rank = distributed.get_rank(group) if rank is None else rank
    size = distributed.get_world_size(group) if size is None else size
    reason = _ops.shm_comm_init(_name(group), rank, size, timeout)
    _ops.shm_comm_names(_name(group))
    return reason


def _ready(group):
    name = _name(group)
    if not _ops.shm_comm_has(name):
        _ops.shm_comm_init(name, distributed.get_rank(group), distributed.get_world_size(group), _TIMEOUT)
    return name


@_telling
def reason(group=None):
    """Return the reason why the group uses torch.distributed, or "" if it uses shared memory."""
    return _ops.shm_comm_reason(_ready(group))


@_telling
def close(group=None):
    """Close the group. Later operations on other ranks fail."""
    _ops.shm_comm_close(_name(group))


def vector_kernel_level():
    """Return DeepSpeed's level of vector kernels: always 2, which means kernels for bfloat16,
    float16 and float32.
    """
    return _ops.shm_comm_kernel_level()


@_telling
def inference_all_reduce(tensor, op="sum", group=None):
    """All-reduce in place. `op` is sum, avg, product, min or max."""
    _ops.shm_all_reduce_(tensor, op, _ready(group))
    return tensor


all_reduce = inference_all_reduce


@_telling
def all_gather(tensor, group=None):
    """Return the tensors of all ranks, concatenated along the first dimension."""
    return _ops.shm_all_gather(tensor, _ready(group))


@_telling
def reduce_scatter(tensor, op="sum", group=None):
    """Return this rank's part of the reduced tensor, along the first dimension."""
    return _ops.shm_reduce_scatter(tensor, op, _ready(group))


@_telling
def broadcast(tensor, source=0, group=None):
    """Broadcast in place from rank `source` of the group."""
    _ops.shm_broadcast_(tensor, source, _ready(group))
    return tensor


@_telling
def barrier(group=None):
    """Wait until all ranks have called barrier()."""
    _ops.shm_barrier(_ready(group))
