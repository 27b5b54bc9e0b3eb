"""What DeepSpeed's ShareMemCommBuilder().load() has, and the collectives with groups. A group is torch.distributed's, or None
for all ranks; it must have been initialized. An operation on a group that is new here is a call of all its ranks. What goes wrong
is an `anyaccel.Error`; of torch.ops.deepspeed.inference_all_reduce(_) it is torch's RuntimeError with the same text."""

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
    """Makes the group ready and lets torch.ops.deepspeed.inference_all_reduce(_) work on it. Returns why shared memory is not
    used, or an empty string. `timeout` in seconds is that of each operation, also where the group is there already. A group that
    failed must be closed on every rank before; one whose process group was destroyed is made anew."""
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
    """Why the group goes through torch.distributed; empty when it shares memory."""
    return _ops.shm_comm_reason(_ready(group))


@_telling
def close(group=None):
    """Forgets the group. The others get an error when they go on."""
    _ops.shm_comm_close(_name(group))


def vector_kernel_level():
    """As DeepSpeed counts: 2 where bfloat16, float16 and float32 all have kernels here, which is everywhere."""
    return _ops.shm_comm_kernel_level()


@_telling
def inference_all_reduce(tensor, op="sum", group=None):
    """In place. `op`: sum, avg, product, min or max."""
    _ops.shm_all_reduce_(tensor, op, _ready(group))
    return tensor


all_reduce = inference_all_reduce


@_telling
def all_gather(tensor, group=None):
    """The tensors of all ranks one after the other along the first dimension."""
    return _ops.shm_all_gather(tensor, _ready(group))


@_telling
def reduce_scatter(tensor, op="sum", group=None):
    """This rank's part, along the first dimension, of the reduced tensor."""
    return _ops.shm_reduce_scatter(tensor, op, _ready(group))


@_telling
def broadcast(tensor, source=0, group=None):
    """In place, from the rank `source` of the group."""
    _ops.shm_broadcast_(tensor, source, _ready(group))
    return tensor


@_telling
def barrier(group=None):
    """Waits until all ranks have come."""
    _ops.shm_barrier(_ready(group))
