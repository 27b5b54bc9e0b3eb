"""torch.distributed with the staged backend, or the one that COMM_BACKEND names, in two processes.
"""

import datetime
import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

import anyaccel

BACKEND = os.environ.get("COMM_BACKEND", "staged")


def start(rank, size, port):
    accelerator = anyaccel.get_accelerator()
    accelerator.set_device(rank % accelerator.device_count())
    dist.init_process_group(BACKEND, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=120))
    return accelerator.torch_device(None if accelerator.name() == "cpu" else accelerator.current_device())


def values(rank, device, dtype=torch.float32, size=6):
    return (torch.arange(size) + 10 * rank).to(dtype).to(device)


def same(tensor, expected):
    assert tensor.cpu().tolist() == expected, (tensor.cpu().tolist(), expected)


def check_reductions(rank, device):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
        x = values(rank, device, dtype)
        dist.all_reduce(x)
        same(x, [10, 12, 14, 16, 18, 20])
    for op, expected in ((dist.ReduceOp.MAX, [10, 11]), (dist.ReduceOp.MIN, [0, 1]), (dist.ReduceOp.PRODUCT, [0, 11]),
                         (dist.ReduceOp.AVG, [5, 6])):
        x = values(rank, device, size=2)
        dist.all_reduce(x, op=op)
        same(x, expected)
    # Averages of integers are truncated.
    x = torch.tensor([3 * rank, -3 * rank], device=device)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    same(x, [1, -1])
    x = torch.tensor([rank == 1, False], device=device)
    dist.all_reduce(x)
    same(x, [True, False])
    x = torch.tensor([1 + 2j * rank], device=device)
    dist.all_reduce(x)
    same(x, [2 + 2j])
    # A strided view is reduced in place, not in a copy.
    base = torch.zeros(4, 3, device=device)
    base[:, 1] = rank + 1
    dist.all_reduce(base[:, 1])
    same(base.sum(0), [0, 12, 0])
    x = values(rank, device)
    dist.reduce(x, dst=1)
    same(x, [10, 12, 14, 16, 18, 20] if rank == 1 else [0, 1, 2, 3, 4, 5])
    out = torch.empty(3, device=device)
    dist.reduce_scatter_tensor(out, values(rank, device))
    same(out, [[10, 12, 14], [16, 18, 20]][rank])
    dist.reduce_scatter(out, list(values(rank, device).chunk(2)), op=dist.ReduceOp.MAX)
    same(out, [[10, 11, 12], [13, 14, 15]][rank])
    pair = [values(rank, device), values(rank, device, size=2)]
    dist.all_reduce_coalesced(pair)
    same(pair[0], [10, 12, 14, 16, 18, 20])
    same(pair[1], [10, 12])


def check_moves(rank, device):
    for dtype in (torch.float32, torch.int16, torch.float8_e4m3fn, torch.bool, torch.complex64):
        x = values(rank, device, dtype, 4) if dtype is not torch.bool else torch.tensor([rank == 1] * 4, device=device)
        expected = values(1, "cpu", dtype, 4) if dtype is not torch.bool else torch.tensor([True] * 4)
        dist.broadcast(x, src=1)
        assert torch.equal(x.cpu().view(torch.uint8), expected.view(torch.uint8))
    parts = [torch.empty(2, device=device) for _ in range(2)]
    dist.all_gather(parts, values(rank, device, size=2))
    same(torch.cat(parts), [0, 1, 10, 11])
    whole = torch.empty(2, 2, device=device)
    dist.all_gather_into_tensor(whole, values(rank, device, size=2))
    same(whole, [[0, 1], [10, 11]])
    dist.gather(values(rank, device, size=2), parts if rank == 0 else None, dst=0)
    if rank == 0:
        same(torch.cat(parts), [0, 1, 10, 11])
    out = torch.empty(2, device=device)
    dist.scatter(out, list(values(1, device, size=4).chunk(2)) if rank == 1 else None, src=1)
    same(out, [[10, 11], [12, 13]][rank])
    out = torch.empty(4, device=device)
    dist.all_to_all_single(out, values(rank, device, size=4))
    same(out, [[0, 1, 10, 11], [2, 3, 12, 13]][rank])
    # Rank 0 sends 1 and 3 rows, rank 1 sends 2 and 0.
    splits = [[1, 3], [2, 0]]
    mine = splits[rank]
    theirs = [splits[0][rank], splits[1][rank]]
    out = torch.empty(sum(theirs), 2, device=device)
    dist.all_to_all_single(out, torch.full((sum(mine), 2), float(rank), device=device), theirs, mine)
    same(out[:, 0], [[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]][rank])
    outs = [torch.empty(1, device=device), torch.empty(2, device=device)]
    ins = [[torch.tensor([1.0]), torch.tensor([2.0])], [torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])]][rank]
    outs = [torch.empty(1 + r, device=device) for r in range(2)]
    dist.all_to_all(outs, [t.to(device) for t in ins])
    same(torch.cat(outs), [[1, 3, 4], [2, 5, 6]][rank])
    if rank == 0:
        tagged = dist.isend(values(3, device), dst=1, tag=7)
        dist.send(values(4, device), dst=1)
        tagged.wait()
    else:
        x, y = torch.empty(6, device=device), torch.empty(6, device=device)
        assert dist.recv(y) == 0  # from any rank; the second message has no tag
        dist.recv(x, src=0, tag=7)
        same(x, [30, 31, 32, 33, 34, 35])
        same(y, [40, 41, 42, 43, 44, 45])
    # Each rank waits for a message before it sends the message that the other rank waits for.
    x = torch.empty(6, device=device)
    work = dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 1 - rank), dist.P2POp(dist.isend, values(rank, device), 1 - rank)])
    for one in work:
        one.wait()
    same(x, values(1 - rank, "cpu").tolist())
    dist.barrier()
    empty = torch.empty(0, device=device)
    dist.all_reduce(empty)
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]


def check_order(rank, device):
    """Check that a collective runs after the work queued before it, and that work queued after
    wait() sees its result.
    """
    accelerator = anyaccel.get_accelerator()
    big = torch.zeros(300, 300, device=device)
    for step in range(10):
        big.fill_(0)
        for _ in range(5):
            big += torch.eye(300, device=device)
        work = dist.all_reduce(big, async_op=True)
        work.wait()
        result = big.diagonal().sum()
        big.fill_(-1)
        assert result.item() == 300 * 10, (step, result.item())
    # The same on another stream, with the only reference to the tensor dropped immediately.
    stream = accelerator.Stream()
    with accelerator.stream(stream):
        x = torch.full((1000,), float(rank + 1), device=device)
        dist.all_reduce(x)
        total = x.sum()
        del x
    accelerator.current_stream().wait_stream(stream)
    assert total.item() == 3000
    future = dist.all_reduce(values(rank, device), async_op=True).get_future()
    same(future.wait()[0] if isinstance(future.wait(), list) else future.wait(), [10, 12, 14, 16, 18, 20])


def check_errors(rank, device):
    rejected = torch.int16 if BACKEND == "staged" else torch.float8_e5m2
    for call, words in ((lambda: dist.all_reduce(torch.zeros(2, dtype=rejected, device=device)), str(rejected).removeprefix("torch.")),
                        (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.bool, device=device), op=dist.ReduceOp.AVG), "bool"),
                        (lambda: dist.all_gather_into_tensor(torch.zeros(3, device=device), torch.zeros(2, device=device)), "large")):
        with pytest.raises(RuntimeError, match=words):
            call()
    x = values(rank, device)
    dist.all_reduce(x)  # the group still works
    same(x, [10, 12, 14, 16, 18, 20])


def check_training(rank, device):
    """Check that DistributedDataParallel gives every rank the gradients of the whole batch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)).to(device)
    alone = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)).to(device)
    alone.load_state_dict(model.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).to(device)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, alone)]
    for _ in range(3):
        parallel(batch[rank * 4:rank * 4 + 4]).square().mean().backward()
        alone(batch).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for left, right in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(left.detach().cpu(), right.detach().cpu(), rtol=1e-4, atol=1e-6)


def check_timeout(rank, device):
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:  # rank 0 hosts the store, so it exits last
        dist.group.WORLD._get_backend(device).set_timeout(datetime.timedelta(seconds=1))
        late = {"staged": r"\[all_reduce\] a peer did not respond within 1000 ms on rank 1 of 2", "shm": "rank 0 did not respond in time"}
        with pytest.raises(RuntimeError, match=late[BACKEND]):
            dist.all_reduce(values(rank, device))
        store.set("late", "1")
    else:
        store.wait(["late"])


CHECKS = [check_reductions, check_moves, check_order, check_errors, check_training]


def main():
    rank, size, port, what = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    if what == "timeout":
        check_timeout(rank, start(rank, size, port))
        os._exit(0)  # the ranks are out of step, so skip the cleanup
    device = start(rank, size, port)
    for check in CHECKS:
        check(rank, device)
        dist.barrier()
        if rank == 0:
            print(f"{check.__name__} done", flush=True)
    dist.destroy_process_group()


def launch(what, size=2):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(r), str(size), str(port), what], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for r in range(size)]
    try:
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(outputs)
    return outputs


# Fails if a collective returns wrong results, is not ordered with the stream's work, or accepts
# invalid arguments.
def test_two_processes():
    assert "check_training done" in launch("all")[0]


# Fails if a rank waits forever for a missing rank.
def test_timeout():
    launch("timeout")


# Fails if the backend's name is not registered with torch, or replaces a backend that another
# vendor registered.
def test_names():
    assert anyaccel.get_accelerator().communication_backend_name() in dist.Backend.backend_list
    assert dist.Backend("staged") == "staged"
    from anyaccel import comm
    marker = object.__new__(type("Vendor", (), {"__call__": lambda *a: None}))
    dist.Backend.register_backend("vendorcl", marker, devices=["cpu"])
    before = dist.Backend._plugins["VENDORCL"]

    class Fake:
        device_type = staticmethod(lambda: "cpu")
        communication_backend_name = staticmethod(lambda: "vendorcl")

    comm.register(Fake)
    assert dist.Backend._plugins["VENDORCL"] is before


if __name__ == "__main__" and sys.argv[1:2] == ["rank"]:
    main()
