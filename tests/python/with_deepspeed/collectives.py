"""Program that comm_test.py runs as a rank: runs every collective of deepspeed.comm and checks the
result. Passes {name: "ok" or the error} to the test. All ranks run the checks in the same order.
"""

import datetime
import sys

import anyaccel.deepspeed  # noqa: F401
import torch

from deepspeed import comm as dist
from deepspeed.accelerator import get_accelerator

import ranks

CHECKS = {}
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int32, torch.int64, torch.uint8)
COUNT = 48


def check(function):
    CHECKS[function.__name__] = function
    return function


def numbers(rank, dtype=torch.float32, count=COUNT):
    """Return small integers, so that sums and products are exact in every dtype and order."""
    return (torch.arange(count) % 5 + 1 + rank).to(dtype).to(device())


def device():
    return get_accelerator().current_device_name()


def all_numbers(dtype=torch.float32, count=COUNT):
    return torch.stack([numbers(rank, dtype, count) for rank in range(dist.get_world_size())])


def same(got, want):
    torch.testing.assert_close(got.cpu(), want.to(got.dtype).cpu(), rtol=0, atol=0)


def reductions(values):
    values = values.cpu()
    made = {"SUM": values.sum(0), "PRODUCT": values.prod(0), "MIN": values.amin(0), "MAX": values.amax(0)}
    if values.is_floating_point():
        made["AVG"] = values.double().mean(0)
    else:
        made.update(BAND=values[0] & values[1], BOR=values[0] | values[1], BXOR=values[0] ^ values[1])
    return made


def of_every_op(call):
    """Call `call(op, dtype, want)` for each op that a dtype supports. Errors name both."""
    for dtype in FLOATS + INTEGERS:
        for name, want in reductions(all_numbers(dtype)).items():
            try:
                call(getattr(dist.ReduceOp, name), dtype, want)
            except Exception as error:
                raise AssertionError(f"{name} of {dtype}: {error!r}") from error


@check
def all_reduce(rank):
    def call(op, dtype, want):
        tensor = numbers(rank, dtype)
        dist.all_reduce(tensor, op)
        same(tensor, want)
    of_every_op(call)
    tensor = numbers(rank)
    dist.all_reduce(tensor, async_op=True).wait()
    same(tensor, all_numbers().sum(0))


@check
def reduce(rank):
    def call(op, dtype, want):
        tensor = numbers(rank, dtype)
        dist.reduce(tensor, dst=1, op=op)
        if rank == 1:
            same(tensor, want)
    of_every_op(call)


@check
def reduce_scatter(rank):
    parts = list(numbers(rank).chunk(2))
    got = torch.empty_like(parts[0])
    dist.reduce_scatter(got, parts)
    same(got, all_numbers().sum(0).chunk(2)[rank])


@check
def reduce_scatter_tensor(rank):
    for call in (dist.reduce_scatter_tensor, dist.reduce_scatter_fn):
        for name, want in reductions(all_numbers()).items():
            got = torch.empty(COUNT // 2, device=device())
            call(got, numbers(rank), op=getattr(dist.ReduceOp, name))
            same(got, want.chunk(2)[rank])


@check
def all_gather(rank):
    parts = [torch.empty_like(numbers(0)) for _ in range(2)]
    dist.all_gather(parts, numbers(rank))
    for place, part in enumerate(parts):
        same(part, numbers(place))


@check
def all_gather_into_tensor(rank):
    for call in (dist.all_gather_into_tensor, dist.allgather_fn):
        for dtype in FLOATS + INTEGERS:
            got = torch.empty(2 * COUNT, dtype=dtype, device=device())
            call(got, numbers(rank, dtype))
            same(got, all_numbers(dtype).view(-1))


@check
def all_reduce_coalesced(rank):
    tensors = [numbers(rank, count=n) for n in (3, 8)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        same(tensor, all_numbers(count=tensor.numel()).sum(0))


@check
def coalescing_manager(rank):
    if torch.distributed.get_backend() != "staged":
        return  # gloo and oneCCL do not support torch's coalescing
    inputs = [numbers(rank, count=n) for n in (3, 8)]
    outputs = [torch.empty(2 * tensor.numel(), device=device()) for tensor in inputs]
    manager = torch.distributed.distributed_c10d._coalescing_manager
    with manager(device=torch.device(device()), async_ops=True) as works:
        for output, tensor in zip(outputs, inputs):
            torch.distributed.all_gather_into_tensor(output, tensor)
    works.wait()
    for got, tensor in zip(outputs, inputs):
        same(got, all_numbers(count=tensor.numel()).view(-1))


@check
def broadcast(rank):
    for source in range(2):
        tensor = numbers(rank)
        dist.broadcast(tensor, source)
        same(tensor, numbers(source))


@check
def all_to_all_single(rank):
    got = torch.empty_like(numbers(0))
    dist.all_to_all_single(got, numbers(rank))
    same(got, torch.cat([numbers(place).chunk(2)[rank] for place in range(2)]))
    # rank 0 sends 10 and 38 rows, rank 1 sends 20 and 28
    cuts = ([10, 38], [20, 28])
    got = torch.empty(sum(cut[rank] for cut in cuts), device=device())
    dist.all_to_all_single(got, numbers(rank), output_split_sizes=[cut[rank] for cut in cuts], input_split_sizes=cuts[rank])
    same(got, torch.cat([numbers(place).split(cuts[place])[rank] for place in range(2)]))


@check
def all_to_all(rank):
    got = [torch.empty(COUNT // 2, device=device()) for _ in range(2)]
    dist.all_to_all(got, list(numbers(rank).chunk(2)))
    for place, part in enumerate(got):
        same(part, numbers(place).chunk(2)[rank])


@check
def gather(rank):
    parts = [torch.empty_like(numbers(0)) for _ in range(2)] if rank == 1 else None
    dist.gather(numbers(rank), parts, dst=1)
    if rank == 1:
        same(torch.stack(parts), all_numbers())


@check
def scatter(rank):
    got = torch.empty_like(numbers(0))
    dist.scatter(got, list(all_numbers()) if rank == 0 else None, src=0)
    same(got, numbers(rank))


@check
def send_and_recv(rank):
    if rank == 0:
        dist.send(numbers(7), 1)
        dist.isend(numbers(8), 1).wait()
    else:
        got = torch.empty_like(numbers(0))
        dist.recv(got, 0)
        same(got, numbers(7))
        dist.irecv(got, 0).wait()
        same(got, numbers(8))


@check
def batch_isend_irecv(rank):
    got = torch.empty_like(numbers(0))
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers(rank), 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]):
        work.wait()
    same(got, numbers(1 - rank))


@check
def objects(rank):
    got = [None, None]
    dist.all_gather_object(got, {"rank": rank})
    assert got == [{"rank": 0}, {"rank": 1}]
    got = [rank, "text"] if rank == 1 else [None, None]
    dist.broadcast_object_list(got, src=1)
    assert got == [1, "text"]


@check
def inference_all_reduce(rank):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        tensor = numbers(rank, dtype, 40_000).view(200, 200)
        dist.inference_all_reduce(tensor)
        same(tensor, all_numbers(dtype, 40_000).sum(0).view(200, 200))


@check
def inference_all_reduce_is_ours(rank):
    shm = get_accelerator().create_op_builder("ShareMemCommBuilder").load()
    assert shm.reason() == "" and shm.vector_kernel_level() == 2
    compiled = torch.compile(lambda x: torch.ops.deepspeed.inference_all_reduce_(x) * 2, fullgraph=True, backend="aot_eager")
    same(compiled(numbers(rank)), all_numbers().sum(0) * 2)


@check
def barrier(rank):
    dist.barrier()
    dist.barrier(group=dist.get_world_group())


@check
def monitored_barrier(rank):
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=300))


@check
def groups(rank):
    alone = [dist.new_group([0]), dist.new_group([1])][rank]
    both = dist.new_group([0, 1])
    assert (dist.get_world_size(alone), dist.get_rank(alone), dist.get_world_size(both)) == (1, 0, 2)
    assert dist.get_all_ranks_from_group(both) == [0, 1] and dist.get_global_rank(alone, 0) == rank
    for group, want in ((alone, numbers(rank)), (both, all_numbers().sum(0))):
        tensor = numbers(rank)
        dist.all_reduce(tensor, group=group)
        same(tensor, want)
        tensor = numbers(rank)
        dist.inference_all_reduce(tensor, group=group)
        same(tensor, want)


@check
def device_mesh(rank):
    mesh = dist.initialize_mesh_device((1, 2), ("data_parallel", "sequence_parallel"))
    tensor = numbers(rank)
    dist.all_reduce(tensor, group=mesh.get_group("sequence_parallel"))
    same(tensor, all_numbers().sum(0))


@check
def log_of_calls(rank):
    dist.configure(enabled=True, prof_all=True, verbose=False)
    dist.all_reduce(numbers(rank))
    dist.configure(enabled=False)
    assert "all_reduce" in dist.log_summary(return_dict=True)["summary"]


def main(only=""):
    get_accelerator().set_device(ranks.rank())
    dist.init_distributed(verbose=False)
    outcome = {}
    for name, function in CHECKS.items():
        if only and name not in only.split(","):
            continue
        try:
            function(ranks.rank())
            outcome[name] = "ok"
        except Exception as error:  # noqa: BLE001 (the test reports it)
            outcome[name] = f"{type(error).__name__}: {error}"[:1000]
        # if only one rank failed, the other rank's next check must not be affected
        dist.barrier()
    ranks.hand_over({"backend": dist.get_backend() if hasattr(dist, "get_backend") else torch.distributed.get_backend(), "outcome": outcome})


if __name__ == "__main__":
    main(*sys.argv[1:])
