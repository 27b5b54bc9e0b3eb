from runner.declare import Benchmark, Side, Target

PEERS = ("gloo", "ccl")
SMALL = ("1K", "4K", "16K", "64K")
LARGE = ("256K", "1M", "4M", "16M", "64M")
SIDE = "two ranks"


def over_best(size):
    def value(numbers):
        figures = numbers[SIDE]
        return min(figures[key] for peer in PEERS if (key := f"{peer}_{size}_us") in figures) / figures[f"shm_{size}_us"]
    return value


def overhead(size):
    return lambda numbers: numbers[SIDE][f"shm_{size}_us"] - numbers[SIDE][f"op_{size}_us"]


def relative_to_op(size):
    return lambda numbers: numbers[SIDE][f"shm_{size}_us"] / numbers[SIDE][f"op_{size}_us"]


benchmark = Benchmark(
    title="torch.distributed over shared memory",
    about="""Microseconds per in-place sum of float32 tensors over two processes with
        torch.distributed.all_reduce(), and milliseconds per DistributedDataParallel training step of
        a model with 10 million parameters, batch 32 and one thread per rank. "shm" is AnyAccel's
        backend, "op" is AnyAccel's op called without torch.distributed, "gloo" is torch's backend
        for host memory, and "ccl" is oneCCL through AnyAccel's backend, if oneCCL is available. All
        implementations take turns on the same tensors in the same processes. All sums are checked
        at each size before timing.""",
    sides=[Side(SIDE, ["{python}", "{here}/shm_c10d.py"], env={"DS_ACCELERATOR": "cpu", "PYTHONPATH": "{build}/python"}, ours=("shm_", "op_"))],
    targets=[*(Target(f"{size}iB: speedup over the best peer", over_best(size), at_least=1.0, unit="x") for size in (*SMALL, *LARGE)),
             *(Target(f"{size}iB: overhead over the op", overhead(size), at_most=10, unit="us") for size in SMALL),
             *(Target(f"{size}iB: time relative to the op", relative_to_op(size), at_most=1.05, unit="x") for size in LARGE),
             Target("DDP training step: speedup over gloo", lambda n: n[SIDE]["gloo_ddp_ms"] / n[SIDE]["shm_ddp_ms"], at_least=1.3, unit="x")])
