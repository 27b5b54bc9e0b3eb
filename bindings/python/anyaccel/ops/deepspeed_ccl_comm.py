"""The functions that DeepSpeed's CCLCommBuilder().load() returns, and the other oneCCL collectives
that its CCLBackend uses.

A group is a list of global ranks, or None for all ranks. As in DeepSpeed, `src` and `dst` are
indices into the group. Tensors may have any strides and be on any device. Unless a tensor is in
host memory and contiguous, its data is copied to a contiguous host buffer, and the result is copied
back. Operations have completed when their function returns, even with `async_op`. All ranks must
call the same functions in the same order.

Failures raise `anyaccel.Error`. If a rank is late or has exited, the code is `timeout`, and the
group becomes unusable. Thread-safe: calls on the same group run one at a time. Not usable in a
forked child.
"""

import torch

from ..errors import Error
from ._bind import Ops
from ._errors import telling

_TIMEOUT = 1800.0  # seconds, the default of torch.distributed
_ops = Ops("CCLCommBuilder")
_telling = telling(lambda message: _ops.ccl_comm_error_code(message))
_world = []  # global ranks of the default group, set by initialize()


def _name(ranks=None):
    return "ccl:" + ",".join(map(str, _world if not ranks else ranks))


def _op(op):
    """Return the op's name, given as a str or as DeepSpeed's or torch's ReduceOp."""
    name = op if isinstance(op, str) else getattr(op, "name", None) or str(op).rsplit(".", 1)[-1]
    return name.lower()


def _address(first):
    return (_ops.ccl_comm_address() if first else torch.zeros(_ops.ccl_comm_address_bytes(), dtype=torch.uint8)).tolist()


@_telling
def get_kvs_addr(rank):
    """Return the address that rank 0 sends to the others, as bytes.

    On other ranks, return zeros of the same length.
    """
    return _address(rank == 0)


@_telling
def initialize(size, rank, kvs_data, timeout=_TIMEOUT):
    """Initialize the group of all ranks.

    All ranks must call this function with rank 0's address as a tensor of bytes.

    `timeout` is the time limit for each operation, in seconds. The rendezvous has oneCCL's own
    limit (CCL_KVS_GET_TIMEOUT, 120 s).
    """
    _world[:] = range(size)
    _ops.ccl_comm_init(_name(), size, rank, kvs_data.cpu(), timeout)


@_telling
def get_sub_kvs_addr(first):
    return _address(first)


@_telling
def initialize_sub_comm(size, rank, kvs_data, ranks, timeout=_TIMEOUT):
    """Initialize a group with the given global `ranks`. All of them must call this function.

    `rank` is this rank's index in the group.
    """
    _ops.ccl_comm_init(_name(ranks), size, rank, kvs_data.cpu(), timeout)


@_telling
def get_rank(group=None):
    return _ops.ccl_comm_rank(_name(_all_if_number(group)))


@_telling
def get_world_size(group=None):
    return _ops.ccl_comm_size(_name(_all_if_number(group)))


def _all_if_number(group):
    """Map an int to the group of all ranks, because DeepSpeed's functions ignore its value."""
    return None if isinstance(group, int) else group


@_telling
def broadcast(tensor, src, group=None, async_op=False):
    _ops.ccl_broadcast_(tensor, src, _name(group))


@_telling
def all_reduce(tensor, op="sum", group=None, async_op=False):
    _ops.ccl_all_reduce_(tensor, _op(op), _name(group), "")


@_telling
def all_reduce_caching(tensor, op, match_id, group=None, async_op=False):
    """All-reduce with a plan that oneCCL caches under `match_id`, which must name the same
    operation on all ranks."""
    _ops.ccl_all_reduce_(tensor, _op(op), _name(group), match_id)


def inference_all_reduce(tensor, op="sum"):
    all_reduce(tensor, op)


@_telling
def reduce(tensor, dst, op="sum", group=None, async_op=False):
    """Reduce in place on `dst`. Tensors on other ranks do not change."""
    _ops.ccl_reduce_(tensor, dst, _op(op), _name(group))


@_telling
def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    output_tensor.copy_(_ops.ccl_all_gather(input_tensor.reshape(-1), _name(group)).view(output_tensor.shape))


@_telling
def all_gather(tensor_list, tensor, group=None, async_op=False):
    if len(tensor_list) != get_world_size(group):
        raise Error(f"[ccl_comm] tensor_list must contain one tensor per rank; got {len(tensor_list)}, want {get_world_size(group)}", "invalid_argument")
    parts = _ops.ccl_all_gather(tensor.reshape(-1), _name(group))
    for target, part in zip(tensor_list, parts.chunk(len(tensor_list)), strict=True):
        target.copy_(part.view(target.shape))


@_telling
def reduce_scatter_tensor(output_tensor, input_tensor, op="sum", group=None, async_op=False):
    output_tensor.copy_(_ops.ccl_reduce_scatter(input_tensor.reshape(-1), _op(op), _name(group)).view(output_tensor.shape))


@_telling
def reduce_scatter(output, input_list, op="sum", group=None, async_op=False):
    flat = torch.cat([part.reshape(-1) for part in input_list])
    output.copy_(_ops.ccl_reduce_scatter(flat, _op(op), _name(group)).view(output.shape))


@_telling
def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Send `input_split_sizes[i]` rows of the first dimension to rank i and receive
    `output_split_sizes[i]` from it. None means equal sizes."""
    rows = output_split_sizes or [output.shape[0] // get_world_size(group)] * get_world_size(group)
    output.copy_(_ops.ccl_all_to_all(input, rows, input_split_sizes or [], _name(group)).view(output.shape))


def _exchange(outputs, inputs, group):
    """Send `inputs[i]` to rank i and receive `outputs[i]` from it. None entries are skipped."""
    some = next(tensor for tensor in (*inputs, *outputs) if tensor is not None)
    flat = torch.cat([some.new_empty(0)] + [tensor.reshape(-1) for tensor in inputs if tensor is not None])
    counts = [[0 if tensor is None else tensor.numel() for tensor in tensors] for tensors in (outputs, inputs)]
    parts = _ops.ccl_all_to_all(flat, *counts, _name(group)).split(counts[0])
    for target, part in zip(outputs, parts, strict=True):
        if target is not None:
            target.copy_(part.view(target.shape))


@_telling
def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    _exchange(output_tensor_list, input_tensor_list, group)


@_telling
def gather(tensor, gather_list, dst, group=None, async_op=False):
    """Gather on `dst`. There, `gather_list` has one tensor per rank; on other ranks, it is None or
    empty.
    """
    size = get_world_size(group)
    _exchange(gather_list or [None] * size, [tensor if i == dst else None for i in range(size)], group)


@_telling
def scatter(tensor, scatter_list, src, group=None, async_op=False):
    """Scatter from `src`. There, `scatter_list` has one tensor per rank; on other ranks, it is None
    or empty.
    """
    size = get_world_size(group)
    _exchange([tensor if i == src else None for i in range(size)], scatter_list or [None] * size, group)


def _over_torch(group, place):
    """Convert an index in the group to a global rank for torch.distributed."""
    ranks = _world if not group else group
    if not torch.distributed.is_initialized() or not ranks:
        raise Error("[ccl_comm] send and recv require torch.distributed; call its init_process_group() and initialize()",
                    "invalid_state")
    if not 0 <= place < len(ranks):
        raise Error(f"[ccl_comm] rank out of range for the group; got {place}, want 0 to {len(ranks) - 1}", "invalid_argument")
    return ranks[place]


def send(tensor, dst, group=None, tag=0):
    """Send through torch.distributed's default group, and wait until the tensor can be reused.

    `dst` is an index in the group.

    oneCCL's own send and recv are not used, because they abort the process for host memory
    (2022.1).
    """
    torch.distributed.send(tensor.contiguous(), _over_torch(group, dst), tag=tag)


def recv(tensor, src, group=None, tag=0):
    """Receive a tensor; see send()."""
    plain = tensor.contiguous()
    torch.distributed.recv(plain, _over_torch(group, src), tag=tag)
    if plain is not tensor:
        tensor.copy_(plain)


@_telling
def barrier(group=None, async_op=False):
    _ops.ccl_barrier(_name(group))


def get_available_coll():
    """Return the collectives of this module that DeepSpeed's backend may call with its own
    arguments.

    scatter is missing because DeepSpeed passes the source as `dst`. send and recv are missing
    because DeepSpeed then uses torch.distributed, like send() and recv() in this module.
    """
    return ["broadcast", "all_reduce", "inference_all_reduce", "all_reduce_caching", "reduce", "all_gather", "all_gather_into_tensor",
            "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "barrier"]
