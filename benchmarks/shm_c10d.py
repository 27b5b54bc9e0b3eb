"""Measures the c10d "shm" backend for shm_c10d.bench.py: starts two ranks and prints what rank 0
measured.

usage: shm_c10d.py

The implementations take turns on the same tensors in the same two processes: `shm` is
torch.distributed.all_reduce() with the "shm" backend, `op` is AnyAccel's op without c10d, `gloo` and
`ccl` are torch.distributed with these backends. `ccl` is left out if oneCCL is unavailable.
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 2
SIZES = {"1K": 10, "4K": 12, "16K": 14, "64K": 16, "256K": 18, "1M": 20, "4M": 22, "16M": 24, "64M": 26}
TURNS = 7
BATCH_US = 10_000
DDP_STEPS = 5


def wanted(name):
    """Whether to measure an implementation. `benchmarks/run --compare` leaves out the peers."""
    only = tuple(filter(None, os.environ.get("BENCHMARK_ONLY", "").split(",")))
    return not only or any(name.startswith(prefix) or prefix.startswith(name) for prefix in only)


def groups_of(dist):
    """Return {backend: process group} for the peers."""
    groups = {}
    for backend in filter(wanted, ("gloo", "ccl")):
        try:
            groups[backend] = dist.new_group(backend=backend)
        except RuntimeError as error:  # raised on all ranks, so they skip the same backends
            print(f"shm_c10d: {backend} is left out: {str(error).splitlines()[0]}", file=sys.stderr)
    return groups


def measure_all_reduce(rank, sides, barrier):
    """Return microseconds per in-place sum, as medians over batches that alternate between the
    implementations.
    """
    import torch
    out = {}
    for size, power in SIZES.items():
        numbers = torch.arange((1 << power) // 4).remainder_(13)
        calls, times = {}, {name: [] for name in sides}
        data = torch.empty(len(numbers))

        def batch(call, count):
            barrier()
            start = time.perf_counter()
            for _ in range(count):
                call(data)
            return (time.perf_counter() - start) / count * 1e6

        for name, call in sides.items():
            data.copy_(numbers + rank)
            call(data)
            if not torch.equal(data, (numbers * RANKS + sum(range(RANKS))).float()):
                sys.exit(f"shm_c10d: wrong sum: {name}, rank {rank}, {size}iB")
            data.zero_()
            took = torch.full((1,), batch(call, 2))
            call(took)  # the ranks agree on the number of calls
            calls[name] = min(max(int(BATCH_US / max(took.item() / RANKS, 1)), 2), 1000)
        for turn in range(TURNS):
            for name in list(sides) if turn % 2 else reversed(sides):
                batch(sides[name], 1)
                times[name].append(batch(sides[name], calls[name]))
        out.update({f"{name}_{size}_us": statistics.median(values) for name, values in times.items()})
    return out


def measure_ddp(groups):
    """Return milliseconds per training step of a model with 10 million parameters, batch 32 per
    rank, one thread per rank.
    """
    import torch
    from torch.nn.parallel import DistributedDataParallel
    models = {}
    for name, group in groups.items():
        torch.manual_seed(0)
        width = 1024
        layers = [layer for _ in range(9) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 512))
        parallel = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        models[name] = parallel, torch.optim.SGD(model.parameters(), lr=0.01)
    x, times = torch.randn(32, width), {name: [] for name in models}
    for turn in range(TURNS + 1):
        for name in list(models) if turn % 2 else reversed(models):
            model, optimizer = models[name]
            start = time.perf_counter()
            for _ in range(DDP_STEPS):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            times[name].append((time.perf_counter() - start) / DDP_STEPS * 1e3)
    return {f"{name}_ddp_ms": statistics.median(values[1:]) for name, values in times.items()}


def run_rank(rank, store):
    import torch
    import torch.distributed as dist

    import anyaccel
    torch.set_num_threads(1)
    dist.init_process_group("shm", init_method=f"file://{store}", rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=120))
    accelerator = anyaccel.get_accelerator()  # registers "ccl"
    groups = groups_of(dist)
    sides = {"shm": dist.all_reduce}
    op = accelerator.create_op_builder("ShareMemCommBuilder").load()
    assert not op.initialize(RANKS, rank)
    default = dist.distributed_c10d._get_default_group().group_name
    sides["op"] = lambda data: torch.ops.anyaccel.shm_all_reduce_(data, "sum", default)
    for name, group in groups.items():
        sides[name] = lambda data, group=group: dist.all_reduce(data, group=group)
    out = measure_all_reduce(rank, sides, op.barrier)
    out.update(measure_ddp({"shm": None, **groups}))
    if rank == 0:
        print(json.dumps(out), flush=True)
    dist.barrier()
    os._exit(0)


def main():
    if sys.argv[1:2] == ["rank"]:
        return run_rank(int(sys.argv[2]), sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "rank", str(rank), f"{folder}/store"],
                                  stdout=None if rank == 0 else subprocess.DEVNULL) for rank in range(RANKS)]
        return max((rank.wait(timeout=500) for rank in ranks), key=abs)


sys.exit(main())
