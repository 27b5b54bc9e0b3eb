"""Runs one library for all_reduce.bench.py: starts two ranks and prints the microseconds that rank
0 measured.

usage: all_reduce.py LIBRARY BUILD [needs]

LIBRARY is anyaccel (called from C++ with pointers), tensors (AnyAccel called from Python), gloo,
deepspeed, mpi, ccl_ofi or ccl_mpi. `needs` compiles the library's program, if it has one, and exits
with 0 if the library works on this machine. Intel MPI and oneCCL are searched for in I_MPI_ROOT and
CCL_ROOT if these are set, otherwise in the interpreter's prefix.
"""
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"1K": 10, "4K": 12, "16K": 14, "64K": 16, "256K": 18, "1M": 20, "4M": 22, "16M": 24, "64M": 26}
RANKS = 2


def prefix(variable):
    return pathlib.Path(os.environ.get(variable, sys.prefix))


def compiled(side, build):
    """Return the path of the benchmark program for the peer library `side`.

    Compile it if it is missing or older than its sources.
    """
    source = HERE / ("all_reduce_mpi.cpp" if side == "mpi" else "all_reduce_ccl.cpp")
    program = pathlib.Path(build) / "bench_peers" / source.stem
    root, mpi = prefix("I_MPI_ROOT" if side == "mpi" else "CCL_ROOT"), prefix("I_MPI_ROOT")
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime, (HERE / "all_reduce.h").stat().st_mtime):
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-O3", "-std=c++20", "-w", f"-I{root}/include", f"-I{mpi}/include", str(source), "-o", str(program),
                        f"-L{root}/lib", f"-L{mpi}/lib", *([] if side == "mpi" else ["-lccl"]), "-lmpi", f"-Wl,-rpath,{root}/lib:{mpi}/lib",
                        f"-Wl,-rpath-link,{root}/lib:{mpi}/lib"], check=True, stdout=sys.stderr)
    return str(program)


def measure(rank, reduce, barrier):
    import torch
    out = {}
    for dtype, word in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        for name, power in SIZES.items():
            numbers = torch.arange((1 << power) // dtype.itemsize).remainder_(13)
            data = (numbers + rank).to(dtype)
            reduce(data)
            if not torch.equal(data, (numbers * RANKS + sum(range(RANKS))).to(dtype)):
                sys.exit(f"all_reduce: wrong sum: rank {rank}, {name}iB of {word}")
            data.zero_()

            def batch(calls):
                barrier()
                start = time.perf_counter()
                for _ in range(calls):
                    reduce(data)
                return (time.perf_counter() - start) / calls * 1e6

            batch(1)
            took = torch.full((16,), batch(3))
            reduce(took)  # the ranks agree on the number of calls
            calls = min(max(int(10_000 / max(took[0].item() / 2, 0.1)), 2), 2000)
            out[f"{word}_{name}_us"] = statistics.median(batch(calls) for _ in range(7))
    if rank == 0:
        print(json.dumps(out), flush=True)
    barrier()
    os._exit(0)


def python_rank(side, rank, store):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=120))
    if side == "gloo":
        return measure(rank, dist.all_reduce, dist.barrier)
    if side == "deepspeed":
        from deepspeed.ops.op_builder import ShareMemCommBuilder
        ShareMemCommBuilder().load(verbose=False).initialize(RANKS, rank)
        return measure(rank, torch.ops.deepspeed.inference_all_reduce_, dist.barrier)
    import anyaccel
    shm = anyaccel.get_accelerator().create_op_builder("ShareMemCommBuilder").load()
    assert not shm.initialize(RANKS, rank)
    name = dist.distributed_c10d._get_default_group().group_name
    return measure(rank, lambda data: torch.ops.anyaccel.shm_all_reduce_(data, "sum", name), shm.barrier)


def commands(side, build, folder):
    """Return (commands, environment variables): one command per rank, or only the launcher's
    command.
    """
    store = f"{folder}/store"
    mpi, ccl = prefix("I_MPI_ROOT"), prefix("CCL_ROOT")
    launcher = [f"{mpi}/bin/mpiexec.hydra", "-n", str(RANKS)]
    libraries = f"{ccl}/lib:{mpi}/lib:" + os.environ.get("LD_LIBRARY_PATH", "")
    mpi_variables = {"I_MPI_ROOT": str(mpi), "I_MPI_FABRICS": "shm", "FI_PROVIDER_PATH": f"{mpi}/lib", "LD_LIBRARY_PATH": libraries}
    if side == "anyaccel":
        return [[f"{build}/bin/bench_all_reduce", str(rank), str(RANKS), store] for rank in range(RANKS)], {"DS_ACCELERATOR": "cpu"}
    if side == "mpi":
        return [[*launcher, compiled(side, build)]], mpi_variables
    if side == "ccl_mpi":
        return [[*launcher, compiled(side, build), store]], {**mpi_variables, "CCL_ROOT": str(ccl), "CCL_ATL_TRANSPORT": "mpi"}
    if side == "ccl_ofi":
        return [[compiled(side, build), store, str(rank), str(RANKS)] for rank in range(RANKS)], {
            "CCL_ROOT": str(ccl), "CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "none", "FI_PROVIDER": "tcp",
            "FI_PROVIDER_PATH": f"{ccl}/lib", "CCL_LOCAL_SIZE": str(RANKS), "CCL_WORKER_OFFLOAD": "0", "LD_LIBRARY_PATH": libraries}
    return [[sys.executable, "-W", "ignore", __file__, side, build, "rank", str(rank), store] for rank in range(RANKS)], {
        "DS_ACCELERATOR": "cpu", "LOCAL_SIZE": str(RANKS), "MASTER_ADDR": "localhost", "MASTER_PORT": str(20000 + os.getpid() % 20000)}


# Name prefixes of the files that each library may leave in /dev/shm.
LEFT_BY = {"deepspeed": ("deepspeed",), "mpi": ("Intel_MPI", "shm-col"), "ccl_mpi": ("Intel_MPI", "shm-col", "ccl"), "ccl_ofi": ("ccl",)}


def in_shared_memory():
    folder = pathlib.Path("/dev/shm")
    return {path for path in (folder.iterdir() if folder.is_dir() else ())}


def run(side, build):
    before = in_shared_memory()
    try:
        return run_ranks(side, build)
    finally:
        for path in in_shared_memory() - before:
            if path.name.startswith(LEFT_BY.get(side, ())) and path.is_file() and path.stat().st_uid == os.getuid():
                path.unlink(missing_ok=True)
            else:
                print(f"all_reduce: {side}: {path} appeared during the run and was not removed", file=sys.stderr)


def run_ranks(side, build):
    with tempfile.TemporaryDirectory() as folder:
        words, variables = commands(side, build, folder)
        started = [subprocess.Popen(command, env={**os.environ, **variables, "CCL_LOCAL_RANK": str(number)} if side == "ccl_ofi" else
                                    {**os.environ, **variables}, stdout=None if number == 0 else subprocess.DEVNULL)
                   for number, command in enumerate(words)]
        ended = [process.wait(timeout=200) for process in started]
    return max(ended, key=abs)


def needs(side, build):
    if side == "deepspeed":
        from deepspeed.ops.op_builder import ShareMemCommBuilder
        ShareMemCommBuilder().load(verbose=False)
    elif side in ("mpi", "ccl_ofi", "ccl_mpi"):
        compiled(side, build)


def main():
    side, build = sys.argv[1:3]
    if sys.argv[3:4] == ["rank"]:
        return python_rank(side, int(sys.argv[4]), sys.argv[5])
    if sys.argv[3:4] == ["needs"]:
        return needs(side, build)
    return run(side, build)


sys.exit(main())
