"""What DeepSpeed's CCLCommBuilder().load() has, and the other collectives that its CCLBackend asks for: collectives of oneCCL.

A group is a list of global ranks, or None for all; `src` and `dst` are places in it, as DeepSpeed gives them. Tensors of any
strides and device; what is not contiguous host memory is copied there and back. Every operation has ended when its function
returns, whatever `async_op` says. All ranks call the same functions in the same order. What goes wrong is an `anyaccel.Error`: a rank that
does not come in time, or is gone, is `timeout`, and the group is of no use then. Thread-safe: calls of one group run one after the
other. Not usable in a forked child."""

import torch

from ..errors import Error
from ._bind import Ops
from ._errors import telling

_TIMEOUT = 1800.0  # seconds, as torch.distributed's
_ops = Ops("CCLCommBuilder")
_telling = telling(lambda message: _ops.ccl_comm_error_code(message))
_world = []  # the ranks of all, once initialize() was called


def _name(ranks=None):
    return "ccl:" + ",".join(map(str, _world if not ranks else ranks))


def _op(op):
    """From a text, or from DeepSpeed's or torch's ReduceOp."""
    name = op if isinstance(op, str) else getattr(op, "name", None) or str(op).rsplit(".", 1)[-1]
    return name.lower()


def _address(first):
    return (_ops.ccl_comm_address() if first else torch.zeros(_ops.ccl_comm_address_bytes(), dtype=torch.uint8)).tolist()


@_telling
def get_kvs_addr(rank):
    """Bytes that rank 0 gives to the others; of the others, as many zeros."""
    return _address(rank == 0)


@_telling
def initialize(size, rank, kvs_data, timeout=_TIMEOUT):
    """Called by all ranks with rank 0's address, a tensor of bytes. `timeout` in seconds is that of each operation; oneCCL has its own
    for the ranks to find each other (CCL_KVS_GET_TIMEOUT, 120 s)."""
    _world[:] = range(size)
    _ops.ccl_comm_init(_name(), size, rank, kvs_data.cpu(), timeout)


@_telling
def get_sub_kvs_addr(first):
    return _address(first)


@_telling
def initialize_sub_comm(size, rank, kvs_data, ranks, timeout=_TIMEOUT):
    """The same for the group of the global `ranks`, called by those; `rank` is the place in it."""
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
    """oneCCL keeps its plan for `match_id`, which names the same operation on all ranks."""
    _ops.ccl_all_reduce_(tensor, _op(op), _name(group), match_id)


def inference_all_reduce(tensor, op="sum"):
    all_reduce(tensor, op)


@_telling
def reduce(tensor, dst, op="sum", group=None, async_op=False):
    """In place on `dst`; the others keep theirs."""
    _ops.ccl_reduce_(tensor, dst, _op(op), _name(group))


@_telling
def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    output_tensor.copy_(_ops.ccl_all_gather(input_tensor.reshape(-1), _name(group)).view(output_tensor.shape))


@_telling
def all_gather(tensor_list, tensor, group=None, async_op=False):
    if len(tensor_list) != get_world_size(group):
        raise Error(f"[ccl_comm] a tensor for each rank is wanted; got {len(tensor_list)}, want {get_world_size(group)}", "invalid_argument")
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
    """Rows of the first dimension, `input_split_sizes[i]` of them to rank i and `output_split_sizes[i]` from it; None: as many for each."""
    rows = output_split_sizes or [output.shape[0] // get_world_size(group)] * get_world_size(group)
    output.copy_(_ops.ccl_all_to_all(input, rows, input_split_sizes or [], _name(group)).view(output.shape))


def _exchange(outputs, inputs, group):
    """`inputs[i]` to rank i, `outputs[i]` from it; None where there is nothing."""
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
    """`gather_list` has a tensor for each rank on `dst`, and is None or empty on the others."""
    size = get_world_size(group)
    _exchange(gather_list or [None] * size, [tensor if i == dst else None for i in range(size)], group)


@_telling
def scatter(tensor, scatter_list, src, group=None, async_op=False):
    """`scatter_list` has a tensor for each rank on `src`, and is None or empty on the others."""
    size = get_world_size(group)
    _exchange([tensor if i == src else None for i in range(size)], scatter_list or [None] * size, group)


def _over_torch(group, place):
    """The global rank of a place in the group, for torch.distributed's group of all."""
    ranks = _world if not group else group
    if not torch.distributed.is_initialized() or not ranks:
        raise Error("[ccl_comm] messages from rank to rank go through torch.distributed; call its init_process_group() and initialize()",
                    "invalid_state")
    if not 0 <= place < len(ranks):
        raise Error(f"[ccl_comm] there is no such rank in the group; got {place}, want 0 to {len(ranks) - 1}", "invalid_argument")
    return ranks[place]


def send(tensor, dst, group=None, tag=0):
    """Through torch.distributed's group of all: oneCCL 2022.1 ends the process in its own send and recv of host memory. `dst` is a place in
    the group. Waits until the message may be forgotten here."""
    torch.distributed.send(tensor.contiguous(), _over_torch(group, dst), tag=tag)


def recv(tensor, src, group=None, tag=0):
    """See send()."""
    plain = tensor.contiguous()
    torch.distributed.recv(plain, _over_torch(group, src), tag=tag)
    if plain is not tensor:
        tensor.copy_(plain)


@_telling
def barrier(group=None, async_op=False):
    _ops.ccl_barrier(_name(group))


def get_available_coll():
    """Those that DeepSpeed's backend may call here, with its arguments. Not scatter: DeepSpeed gives it the
    source as `dst`. Not send and recv: DeepSpeed then asks torch.distributed, as those here do."""
    return ["broadcast", "all_reduce", "inference_all_reduce", "all_reduce_caching", "reduce", "all_gather", "all_gather_into_tensor",
            "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "barrier"]
