"""torch.distributed with the "shm" backend: every collective against the expected result and against
gloo, in two to four processes.
"""
import datetime
import os
import signal
import sys
import time

import pytest
import shm_ranks
import torch
import torch.distributed as dist
from shm_ranks import launch

import anyaccel

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
BY_GLOO = (torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64)
SIZES = (0, 1, 7, 1000, 100_003)
OPS = dist.ReduceOp
FOLDS = {
    OPS.SUM: lambda parts: parts.sum(0), OPS.AVG: lambda parts: parts.sum(0) / len(parts), OPS.PRODUCT: lambda parts: parts.prod(0),
    OPS.MIN: lambda parts: parts.amin(0), OPS.MAX: lambda parts: parts.amax(0)
}
BITS = {OPS.BAND: torch.bitwise_and, OPS.BOR: torch.bitwise_or, OPS.BXOR: torch.bitwise_xor}


def values(rank, dtype, count):
    """Small numbers, which every dtype represents exactly and whose products do not overflow int8."""
    numbers = (torch.arange(count) * 7 + rank * 3) % 4
    return numbers % 2 == 1 if dtype is torch.bool else numbers.to(dtype)


def expected(dtype, op, count, size):
    parts = [values(rank, dtype, count) for rank in range(size)]
    if op in BITS:
        total = parts[0]
        for part in parts[1:]:
            total = BITS[op](total, part)
        return total
    if dtype is torch.bool:
        stack = torch.stack(parts)
        return stack.any(0) if op in (OPS.SUM, OPS.MAX) else stack.all(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    total = FOLDS[op](torch.stack([part.to(wide) for part in parts]))
    return (total.trunc() if op == OPS.AVG and not dtype.is_floating_point and not dtype.is_complex else total).to(dtype)


def cases():
    for dtype in (*FLOATS, *INTEGERS, torch.bool, *COMPLEX):
        for op in (*FOLDS, *BITS):
            bits = op in BITS
            if bits and (dtype.is_floating_point or dtype.is_complex):
                continue
            if dtype.is_complex and op not in (OPS.SUM, OPS.AVG) or dtype is torch.bool and op == OPS.AVG:
                continue
            yield dtype, op


def check_reductions(rank, size):
    gloo = dist.new_group(backend="gloo")
    for dtype, op in cases():
        for count in SIZES:
            want = expected(dtype, op, count, size)
            x = values(rank, dtype, count)
            dist.all_reduce(x, op=op)
            torch.testing.assert_close(x, want)
            y = values(rank, dtype, count)
            work = dist.all_reduce(y, op=op, async_op=True)
            work.wait()
            assert work.is_completed() and work.is_success()
            assert torch.equal(x, y), "a queued all_reduce differs from an inline one"
            if dtype in BY_GLOO and op != OPS.AVG and count == 1000:
                theirs = values(rank, dtype, count)
                dist.all_reduce(theirs, op=op, group=gloo)
                torch.testing.assert_close(x, theirs)
        count = 1000
        x = values(rank, dtype, count)
        dist.reduce(x, dst=size - 1, op=op)
        torch.testing.assert_close(x, expected(dtype, op, count, size) if rank == size - 1 else values(rank, dtype, count))
        whole = expected(dtype, op, 50 * size, size)
        for async_op in (False, True):
            out = torch.empty(50, dtype=dtype)
            work = dist.reduce_scatter_tensor(out, values(rank, dtype, 50 * size), op=op, async_op=async_op)
            if work is not None:
                work.wait()
            torch.testing.assert_close(out, whole.chunk(size)[rank])
        # Parts that are not next to each other in memory.
        parts = [part.clone() for part in values(rank, dtype, 50 * size).chunk(size)]
        dist.reduce_scatter(out, parts, op=op)
        torch.testing.assert_close(out, whole.chunk(size)[rank])
    dist.destroy_process_group(gloo)
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        x = torch.full((5,), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert x.tolist() == [size * (size + 1) // 2] * 5
    if callable(OPS.PREMUL_SUM):  # since torch 2.13
        x = torch.full((3,), rank + 1.0)
        dist.all_reduce(x, op=OPS.PREMUL_SUM(0.5))
        assert x.tolist() == [size * (size + 1) / 4] * 3
        out = torch.empty(2)
        dist.reduce_scatter_tensor(out, torch.full((2 * size,), rank + 1.0), op=OPS.PREMUL_SUM(0.5))
        assert out.tolist() == [size * (size + 1) / 4] * 2
    # Views are reduced in place, not in a copy.
    base = torch.zeros(4, 3)
    base[:, 1] = 1
    dist.all_reduce(base[:, 1])
    assert base.sum(0).tolist() == [0, 4 * size, 0]
    leaf = torch.ones(3, requires_grad=True)
    dist.all_reduce(leaf.data)
    assert leaf.tolist() == [size] * 3
    with torch.inference_mode():
        x = torch.full((3,), rank + 1)
    dist.all_reduce(x, op=OPS.AVG)
    assert x.tolist() == [(size + 1) // 2] * 3
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0] * size


def check_moves(rank, size):
    for dtype in (*FLOATS, *INTEGERS, torch.bool, *COMPLEX, torch.uint16, torch.float8_e4m3fn):
        for count in (0, 1, 1000, 100_003):
            for async_op in (False, True):
                x = values(rank, dtype, count)
                work = dist.broadcast(x, src=size - 1, async_op=async_op)
                if work is not None:
                    work.wait()
                assert shm_ranks.same_bytes(x, values(size - 1, dtype, count))
                whole = torch.empty(size * count, dtype=dtype)
                work = dist.all_gather_into_tensor(whole, values(rank, dtype, count), async_op=async_op)
                if work is not None:
                    work.wait()
                assert shm_ranks.same_bytes(whole, torch.cat([values(other, dtype, count) for other in range(size)]))
        parts = [torch.empty(10, dtype=dtype) for _ in range(size)]
        dist.all_gather(parts, values(rank, dtype, 10))
        assert all(shm_ranks.same_bytes(part, values(other, dtype, 10)) for other, part in enumerate(parts))
        got = [torch.empty(10, dtype=dtype) for _ in range(size)] if rank == 0 else None
        dist.gather(values(rank, dtype, 10), got, dst=0)
        assert rank != 0 or all(shm_ranks.same_bytes(part, values(other, dtype, 10)) for other, part in enumerate(got))
        out = torch.empty(10, dtype=dtype)
        dist.scatter(out, [values(other, dtype, 10) for other in range(size)] if rank == 1 else None, src=1)
        assert shm_ranks.same_bytes(out, values(rank, dtype, 10))
        whole = torch.empty(2 * size, dtype=dtype)
        dist.all_to_all_single(whole, values(rank, dtype, 2 * size))
        assert shm_ranks.same_bytes(whole, torch.cat([values(other, dtype, 2 * size).chunk(size)[rank] for other in range(size)]))
    outs = [torch.empty(1 + rank) for _ in range(size)]
    dist.all_to_all(outs, [torch.full((1 + other,), float(rank)) for other in range(size)])
    assert [out.tolist() for out in outs] == [[float(other)] * (1 + rank) for other in range(size)]
    # In-place all-gather: the input is this rank's block of the output.
    whole = torch.zeros(size, 4)
    whole[rank] = rank + 1
    dist.all_gather_into_tensor(whole, whole[rank])
    assert whole[:, 0].tolist() == list(range(1, size + 1))


def check_messages(rank, size):
    # The group's first operations involve only two of its ranks.
    group = dist.new_group()
    if rank == size - 1:
        dist.send(torch.full((3,), 5.0), dst=0, tag=4, group=group)
    if rank == 0:
        x = torch.empty(3)
        dist.recv(x, src=size - 1, tag=4, group=group)
        assert x.tolist() == [5.0] * 3
    after, before = (rank + 1) % size, (rank - 1) % size
    x = torch.empty(1000, dtype=torch.int16)
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, before), dist.P2POp(dist.isend, values(rank, torch.int16, 1000), after)])
    for work in works:
        work.wait()
    assert torch.equal(x, values(before, torch.int16, 1000))
    if rank == 0:
        senders = {dist.recv(torch.empty(2)) for _ in range(size - 1)}  # from any rank
        assert senders == set(range(1, size)), senders
    else:
        dist.send(torch.zeros(2), dst=0)
    dist.barrier()
    dist.destroy_process_group(group)


def check_order(rank, size):
    # An operation that waits for a late rank does not block its caller.
    x = torch.full((1000,), float(rank))
    if rank == 1:
        time.sleep(0.5)
    start = time.monotonic()
    work = dist.all_reduce(x, async_op=True)
    took = time.monotonic() - start
    assert took < 0.25, took
    if rank != 1:
        assert not work.is_completed()
    # A synchronous operation waits for the ones that were queued before it.
    total = sum(range(size))
    works = [dist.all_reduce(x, async_op=True) for _ in range(20)]
    y = torch.full((1,), float(rank))
    dist.all_reduce(y)
    assert all(one.is_completed() for one in (work, *works)) and y.item() == total
    assert x[0].item() == pytest.approx(total * float(size)**20)
    futures = [dist.all_reduce(torch.full((3,), float(rank + i)), async_op=True).get_future().then(lambda done: done.value()[0].sum().item())
               for i in range(5)]
    assert [future.wait() for future in futures] == [3.0 * (total + i * size) for i in range(5)]
    done = dist.group.WORLD.allreduce(torch.ones(2), OPS.SUM)
    done.wait()
    assert done.result()[0].tolist() == [size] * 2
    # The only reference to the tensor is dropped while the operation is queued.
    for _ in range(50):
        work = dist.all_reduce(torch.ones(100_000), async_op=True)
    work.wait()
    before = time.monotonic()
    if rank == 0:
        time.sleep(0.3)
    dist.barrier()
    assert time.monotonic() - before > 0.25


def check_coalescing(rank, size):
    total = size * (size + 1) / 2
    for async_ops in (False, True):
        tensors = [torch.full((count,), rank + 1.0) for count in (3, 1000, 50_000)]
        with dist._coalescing_manager(async_ops=async_ops) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        if async_ops:
            manager.wait()
        assert all((tensor == total).all() for tensor in tensors)
        outs, parts = [torch.empty(2 * size), torch.empty(size)], [torch.full((2,), float(rank)), torch.full((1,), float(rank))]
        with dist._coalescing_manager(async_ops=async_ops) as manager:
            for out, part in zip(outs, parts):
                dist.all_gather_into_tensor(out, part)
        if async_ops:
            manager.wait()
        assert outs[1].tolist() == list(range(size)) and outs[0][::2].tolist() == list(range(size))
        scattered = [torch.empty(1), torch.empty(4)]
        with dist._coalescing_manager(async_ops=async_ops) as manager:
            for out in scattered:
                dist.reduce_scatter_tensor(out, torch.full((size * out.numel(),), rank + 1.0))
        if async_ops:
            manager.wait()
        assert all((out == total).all() for out in scattered)
    # If a device is given, each call starts at once, and manager.wait() waits for all of them.
    tensors = [torch.full((10,), rank + 1.0) for _ in range(3)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)
    manager.wait()
    assert all((tensor == 1).all() for tensor in tensors)
    pair = [torch.full((4,), rank + 1.0), torch.full((2, 2), rank + 1.0)]
    dist.all_reduce_coalesced(pair)
    assert all((tensor == total).all() for tensor in pair)


def check_objects(rank, size):
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": other, "text": "x" * other} for other in range(size)]
    items = ["first", {2: 3}] if rank == 1 else [None, None]
    dist.broadcast_object_list(items, src=1)
    assert items == ["first", {2: 3}]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * 10, gathered, dst=0)
    assert rank != 0 or gathered == [10 * other for other in range(size)]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {other}" for other in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"]


def check_groups(rank, size):
    groups = [dist.new_group([a, b]) for a in range(size) for b in range(a + 1, size)]
    pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
    works = []
    for _ in range(3):  # the ranks of the groups overlap, and operations of all groups are in flight
        for pair, group in zip(pairs, groups):
            if rank in pair:
                x = torch.full((2000,), float(rank))
                works.append((dist.all_reduce(x, group=group, async_op=True), x, float(sum(pair))))
    for work, x, want in works:
        work.wait()
        assert (x == want).all()
    mine = [group for pair, group in zip(pairs, groups) if rank in pair]
    for group in mine:
        assert group._get_backend(torch.device("cpu")).name() == "shm"
        dist.destroy_process_group(group)
    dist.barrier()
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    own = halves[rank >= size // 2]
    part = dist.group.WORLD.split_group(own, group_name=f"half {own}", group_desc="half")
    x = torch.full((4,), float(rank))
    part.allreduce(x).wait()
    assert x[0].item() == sum(own) and part.size() == len(own)
    alone = dist.new_group([rank], use_local_synchronization=True)
    x = torch.full((4,), float(rank))
    dist.all_reduce(x, group=alone)
    assert x[0].item() == rank


def check_errors(rank, size):
    for call, words in ((lambda: dist.all_reduce(torch.zeros(2, dtype=torch.float8_e4m3fn)), "float8_e4m3fn"),
                        (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.bool), op=OPS.AVG), "AVG does not support bool"),
                        (lambda: dist.all_reduce(torch.zeros(2), op=OPS.BOR), "this dtype does not support bitwise reductions"),
                        (lambda: dist.all_gather_into_tensor(torch.zeros(size + 1), torch.zeros(2)), "number of ranks")):
        with pytest.raises(RuntimeError, match=words):
            call()
    x = torch.ones(2)
    dist.all_reduce(x)  # the group still works
    assert x[0].item() == size


def check_mismatch(rank, size):
    group = dist.new_group()
    with pytest.raises(RuntimeError, match=r"rank \d called all_reduce of \d+ bytes as float32 by sum, but rank \d called"):
        dist.all_reduce(torch.zeros(2 + rank), group=group)
    del group


CHECKS = [check_messages, check_reductions, check_moves, check_order, check_coalescing, check_objects, check_groups, check_errors, check_mismatch]


def run_all(rank, size):
    for check in CHECKS:
        check(rank, size)
        dist.barrier()
        if rank == 0:
            print(f"{check.__name__} done", flush=True)
    dist.destroy_process_group()


def run_dead(rank, size, how):
    dist.barrier()
    pending = dist.all_reduce(torch.zeros(10), async_op=True)
    pending.wait()
    if rank == 1:
        dist.distributed_c10d._get_default_store().set("killed 1", "1")
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"\[all_reduce over shared memory\] rank 1 has died"):
        if how == "async":
            dist.all_reduce(torch.zeros(100_000), async_op=True).wait()
        else:
            dist.all_reduce(torch.zeros(100_000))
    assert time.monotonic() - start < 10
    with pytest.raises(RuntimeError, match="rank 1 has died"):  # the group is unusable
        dist.barrier()
    print("named", flush=True)
    shm_ranks.leave(rank)


def run_late(rank, size):
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["named"])
        shm_ranks.leave(rank)
    dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=1))
    with pytest.raises(RuntimeError, match="rank 1 did not respond in time.* within 1000 ms"):
        dist.all_reduce(torch.zeros(3))
    store.set("named", "1")
    print("named", flush=True)
    shm_ranks.leave(rank)


def run_abort(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
        dist.group.WORLD.abort()
        print("aborted", flush=True)
    else:
        with pytest.raises(RuntimeError, match="rank 1 aborted the group"):
            dist.all_reduce(torch.zeros(3), async_op=True).wait()
        print("named", flush=True)
    shm_ranks.leave(rank)


def run_without_memory(rank, size):
    for dtype in (torch.float32, torch.int16, torch.bfloat16):
        x = torch.full((1000,), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert (x == size * (size + 1) // 2).all()
    out = torch.empty(3, dtype=torch.int32)
    dist.reduce_scatter_tensor(out, torch.arange(3 * size, dtype=torch.int32))
    assert out.tolist() == [size * (3 * rank + i) for i in range(3)]
    whole = torch.empty(size, dtype=torch.float64)
    dist.all_gather_into_tensor(whole, torch.full((1,), float(rank), dtype=torch.float64))
    assert whole.tolist() == list(range(size))
    x = torch.full((2,), float(rank))
    dist.broadcast(x, src=1)
    assert x.tolist() == [1, 1]
    dist.barrier()
    dist.destroy_process_group()


# Fails if a collective returns a wrong result, differs from gloo, runs out of order, blocks the
# caller of an asynchronous operation, or accepts invalid arguments.
@pytest.mark.parametrize(("size", "backend"), [(2, "shm"), (3, "cpu:shm"), (4, "shm")])
def test_every_collective(size, backend):
    assert "check_mismatch done" in launch(__file__, "run_all", size, backend=backend)[0]


# Fails if a rank waits forever for a dead rank, or the error does not name that rank.
@pytest.mark.parametrize("how", ["sync", "async"])
def test_dead_rank(how):
    outputs = launch(__file__, "run_dead", 3, how, exits={1: -signal.SIGKILL})
    assert all("named" in outputs[rank] for rank in (0, 2)), outputs


# Fails if the time limit of the group is ignored, or the error does not name the late rank.
def test_late_rank():
    assert "named" in launch(__file__, "run_late", 2)[0]


# Fails if abort() does not end an operation in progress on another rank.
def test_abort():
    assert "named" in launch(__file__, "run_abort", 2)[0]


# Fails if ranks that cannot share memory get an error or wrong results, or are not told the reason.
def test_without_shared_memory():
    outputs = launch(__file__, "run_without_memory", 2, environment={"ANYACCEL_SHM_DIR": "/no/such/folder"})
    assert sum(output.count("the shm backend falls back to gloo: ") for output in outputs) == 1, outputs
    assert "/no/such/folder" in outputs[0]


# Fails if `import anyaccel` does not register the name, selects an accelerator, or replaces another
# package's backend.
def test_name():
    code = ("import anyaccel, torch.distributed as dist; from anyaccel import _native; "
            "assert dist.Backend('shm') == dist.Backend.SHM and not _native.chosen(); "
            "print(dist.distributed_c10d.BackendConfig('cpu:shm,cuda:nccl'))")
    assert shm_ranks.output_of(code) == "cpu:shm,cuda:nccl"
    taken = ("import torch.distributed as dist; other = lambda *given: None; dist.Backend.register_backend('shm', other, devices=['cpu']); "
             "import anyaccel; anyaccel.get_accelerator(); print(dist.Backend._plugins['SHM'].creator_fn is other)")
    assert shm_ranks.output_of(taken) == "True"
    anyaccel.get_accelerator()
    assert dist.Backend.backend_capability["shm"][0] == "cpu"


if __name__ == "__main__" and sys.argv[1:2] == ["rank"]:
    shm_ranks.run(globals())
