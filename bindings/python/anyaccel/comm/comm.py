"""The functions of `deepspeed.comm`, implemented with torch.distributed; `anyaccel.comm` re-exports
them.

They take DeepSpeed's arguments. `prof`, `log_name` and `debug`, which DeepSpeed uses to log calls,
are ignored.
"""

import functools
import os
from datetime import timedelta

from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

from .._native import get_accelerator
from ..errors import make_error

ReduceOp = distributed.ReduceOp
ProcessGroup = distributed.ProcessGroup
P2POp = distributed.P2POp
DEFAULT_PORT = 29500
DEFAULT_TIMEOUT = timedelta(minutes=30)


def _like(function, **renamed):
    """Wrap a function of torch.distributed so that it accepts DeepSpeed's argument names."""

    @functools.wraps(function)
    def called(*args, prof=False, log_name=None, debug=None, **kwargs):
        for theirs, torchs in renamed.items():
            if theirs in kwargs:
                kwargs[torchs] = kwargs.pop(theirs)
        return function(*args, **kwargs)

    return called


def _newer(name, before):
    """Return torch's function `name`, or `before`, its deprecated predecessor, if this torch lacks
    `name`.
    """
    return getattr(distributed, name, None) or getattr(distributed, before)


all_gather = _like(distributed.all_gather)
all_gather_into_tensor = allgather_fn = _like(_newer("all_gather_single", "all_gather_into_tensor"), tensor="input_tensor")
all_gather_object = _like(distributed.all_gather_object)
all_reduce = _like(distributed.all_reduce)
all_to_all = _like(distributed.all_to_all)
all_to_all_single = _like(distributed.all_to_all_single, tensor="input")
barrier = _like(distributed.barrier)
batch_isend_irecv = _like(distributed.batch_isend_irecv)
broadcast = _like(distributed.broadcast)
broadcast_object_list = _like(distributed.broadcast_object_list)
gather = _like(distributed.gather)
irecv = _like(distributed.irecv)
isend = _like(distributed.isend)
monitored_barrier = _like(distributed.monitored_barrier)
recv = _like(distributed.recv)
reduce = _like(distributed.reduce)
reduce_scatter = _like(distributed.reduce_scatter)
reduce_scatter_tensor = reduce_scatter_fn = _like(_newer("reduce_scatter_single", "reduce_scatter_tensor"), output_tensor="output", tensor="input")
scatter = _like(distributed.scatter)
send = _like(distributed.send)

destroy_process_group = distributed.destroy_process_group
get_global_rank = distributed.get_global_rank
get_rank = distributed.get_rank
get_world_size = distributed.get_world_size
is_available = distributed.is_available
is_initialized = distributed.is_initialized


def has_all_gather_into_tensor():
    return True


def has_all_reduce_coalesced():
    return True


def has_coalescing_manager():
    return True


def has_reduce_scatter_tensor():
    return True


def new_group(ranks):
    """Create a group with the given global ranks. All ranks must call it."""
    return distributed.new_group(ranks)


def get_world_group():
    """Return the group of all ranks."""
    return distributed.group.WORLD


def _from_launcher(name, otherwise):
    return int(os.environ.get(name) or os.environ.get(f"OMPI_COMM_WORLD_{name}") or otherwise)


def get_local_rank_from_launcher():
    """Return the local rank set by the launcher, or 0 without a launcher."""
    return _from_launcher("LOCAL_RANK", 0)


def get_world_rank_from_launcher():
    """Return the global rank set by the launcher, or 0 without a launcher."""
    return _from_launcher("RANK", 0)


def get_world_size_from_launcher():
    """Return the number of ranks set by the launcher, or 1 without a launcher."""
    return _from_launcher("WORLD_SIZE", 1)


get_local_rank = get_local_rank_from_launcher


def get_all_ranks_from_group(group=None):
    """Return the global ranks of a group."""
    return distributed.get_process_group_ranks(distributed.group.WORLD if group is None else group)


def inference_all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """All-reduce a tensor. Uses shared memory if the tensor is in host memory and the shared-memory
    op is available.
    """
    builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
    if tensor.device.type == "cpu" and builder.is_compatible():
        builder.load().inference_all_reduce(tensor, str(op).rsplit(".", 1)[-1].lower(), group)
    else:
        distributed.all_reduce(tensor, op, group)


class _Works:
    """One handle for multiple asynchronous operations."""

    def __init__(self, works):
        self._works = [work for work in works if work is not None]  # None means that this rank is not in the group

    def wait(self, *timeout):
        return all([work.wait(*timeout) for work in self._works])

    def is_completed(self):
        return all(work.is_completed() for work in self._works)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """All-reduce each tensor. With `async_op`, return one handle for all of them."""
    works = [distributed.all_reduce(tensor, op, group, async_op) for tensor in tensors]
    return _Works(works) if async_op else None


def all_gather_coalesced(output_tensors, input_tensors, group=None, async_op=False):
    """Call all_gather_into_tensor() for each pair of output and input tensors.

    With `async_op`, return one handle for all of them.
    """
    works = [all_gather_into_tensor(output, each, group, async_op) for output, each in zip(output_tensors, input_tensors)]
    return _Works(works) if async_op else None


def initialize_mesh_device(mesh_shape, mesh_dim_names):
    """Return a torch DeviceMesh for this accelerator's device type."""
    return init_device_mesh(get_accelerator().device_type(), mesh_shape, mesh_dim_names=mesh_dim_names)


def init_distributed(dist_backend=None, auto_mpi_discovery=True, distributed_port=DEFAULT_PORT, verbose=True, timeout=DEFAULT_TIMEOUT, init_method=None,
                     dist_init_required=None, config=None, rank=-1, world_size=-1):
    """Initialize torch.distributed with `dist_backend` (default: the accelerator's backend) unless
    it is already initialized.

    The rank comes from the environment variables that `anyaccel launch`, torchrun and DeepSpeed's
    launcher set, or from Open MPI's variables. `config` is ignored.
    """
    if dist_init_required is False or distributed.is_initialized():
        if not distributed.is_initialized():
            raise make_error("invalid_state", "init_distributed", "torch.distributed is not initialized", got="dist_init_required=False",
                             hint="call torch.distributed.init_process_group() first, or omit dist_init_required")
        return
    if auto_mpi_discovery and "RANK" not in os.environ and "OMPI_COMM_WORLD_RANK" in os.environ:
        _ranks_of_open_mpi(distributed_port)
    given = {} if rank < 0 else {"rank": rank, "world_size": world_size}
    name = dist_backend or get_accelerator().communication_backend_name()
    if verbose and int(os.environ.get("RANK", max(rank, 0))) == 0:
        print(f"anyaccel: initializing torch.distributed with the backend {name}")
    distributed.init_process_group(name, timeout=timeout, init_method=init_method, **given)


def _ranks_of_open_mpi(port):
    names = {"RANK": "OMPI_COMM_WORLD_RANK", "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE", "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK"}
    os.environ.update({ours: os.environ[theirs] for ours, theirs in names.items()})
    os.environ.setdefault("MASTER_PORT", str(port))
    if "MASTER_ADDR" not in os.environ:
        if os.environ["WORLD_SIZE"] != os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE"):
            raise make_error("invalid_state", "init_distributed", "the ranks are on several hosts, but MASTER_ADDR is not set",
                             hint="start them with `mpirun -x MASTER_ADDR=HOST`, or with `anyaccel launch --launcher openmpi`")
        os.environ["MASTER_ADDR"] = "127.0.0.1"


__all__ = [name for name, value in list(globals().items()) if name[0] != "_" and (callable(value) or name in ("ReduceOp", "ProcessGroup", "P2POp"))
           and name not in ("make_error", "get_accelerator", "timedelta", "init_device_mesh")]
