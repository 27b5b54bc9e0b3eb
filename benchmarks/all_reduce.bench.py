from runner.declare import Benchmark, Side, Target

PEERS = ("gloo", "oneCCL, ofi", "oneCCL, MPI", "Intel MPI", "DeepSpeed")
SIZES = ("1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M")


def over_best(key):
    def value(numbers):
        peers = [numbers[peer][key] for peer in PEERS if peer in numbers]
        if not peers:
            raise KeyError("any peer")
        return min(peers) / numbers["anyaccel"][key]
    return value


def side(name, word, ours=False, needs=True):
    command = ["{python}", "{here}/all_reduce.py", word, "{build}"]
    return Side(name, command, env={"PYTHONPATH": "{build}/python"}, needs=[*command, "needs"] if needs else [], ours=("",) if ours else ())


benchmark = Benchmark(
    title="All-reduce over shared memory",
    about="""Microseconds per in-place sum over two processes, called repeatedly on the same memory.
        "anyaccel", oneCCL and Intel MPI are called from C++ with pointers. oneCCL runs twice:
        without a launcher (ofi) and under Intel MPI's launcher. "tensors" (AnyAccel's op), gloo and
        DeepSpeed's shared-memory op are called from Python. All sums are checked at each size
        before timing. Targets are the speedup over the fastest installed peer.""",
    sides=[side("anyaccel", "anyaccel", ours=True, needs=False), side("tensors", "tensors", ours=True, needs=False), side("gloo", "gloo", needs=False),
           side("oneCCL, ofi", "ccl_ofi"), side("oneCCL, MPI", "ccl_mpi"), side("Intel MPI", "mpi"), side("DeepSpeed", "deepspeed")],
    targets=[Target(f"{size}iB, {dtype}: speedup over the best peer", over_best(f"{dtype}_{size}_us"), at_least=1.0, unit="x")
             for dtype in ("fp32", "bf16") for size in SIZES])
