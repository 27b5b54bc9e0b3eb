"""What DeepSpeed's CCLCommBuilder().load() has: collectives of oneCCL. A group is a list of global ranks. Every operation has
ended when its function returns, whatever `async_op` says."""

import torch

_ops = torch.ops.anyaccel
_world = []


def _name(ranks=None):
    return "ccl:" + ",".join(map(str, _world if not ranks else ranks))


def _op(op):
    """From a text, or from DeepSpeed's or torch's ReduceOp."""
    name = op if isinstance(op, str) else getattr(op, "name", None) or str(op).rsplit(".", 1)[-1]
    return name.lower()


def _address(first):
    return (_ops.ccl_comm_address() if first else torch.zeros(_ops.ccl_comm_address_bytes(), dtype=torch.uint8)).tolist()


def get_kvs_addr(rank):
    """Bytes that rank 0 gives to the others; of the others, as many zeros."""
    return _address(rank == 0)


def initialize(size, rank, kvs_data):
    """Called by all ranks with rank 0's address, a tensor of bytes."""
    _world[:] = range(size)
    _ops.ccl_comm_init(_name(), size, rank, kvs_data.cpu())


def get_sub_kvs_addr(first):
    return _address(first)


def initialize_sub_comm(size, rank, kvs_data, ranks):
    """The same for the group of the global `ranks`, called by those; `rank` is the place in it."""
    _ops.ccl_comm_init(_name(ranks), size, rank, kvs_data.cpu())


def get_rank(group=None):
    return _ops.ccl_comm_rank(_name(group))


def get_world_size(group=None):
    return _ops.ccl_comm_size(_name(group))


def broadcast(tensor, src, group=None, async_op=False):
    """`src` is a place in the group, as DeepSpeed gives it."""
    _ops.ccl_broadcast_(tensor, src, _name(group))


def all_reduce(tensor, op="sum", group=None, async_op=False):
    _ops.ccl_all_reduce_(tensor, _op(op), _name(group), "")


def all_reduce_caching(tensor, op, match_id, group=None, async_op=False):
    """oneCCL keeps its plan for `match_id`, which names the same operation on all ranks."""
    _ops.ccl_all_reduce_(tensor, _op(op), _name(group), match_id)


def inference_all_reduce(tensor, op="sum"):
    all_reduce(tensor, op)


def all_gather(tensor, group=None):
    """The tensors of all ranks one after the other along the first dimension."""
    return _ops.ccl_all_gather(tensor, _name(group))


def reduce_scatter(tensor, op="sum", group=None):
    """This rank's part, along the first dimension, of the reduced tensor."""
    return _ops.ccl_reduce_scatter(tensor, _op(op), _name(group))


def barrier(group=None, async_op=False):
    _ops.ccl_barrier(_name(group))


def get_available_coll():
    """Those that DeepSpeed's backend may call here, with its arguments."""
    return ["broadcast", "all_reduce", "inference_all_reduce", "all_reduce_caching", "barrier"]
