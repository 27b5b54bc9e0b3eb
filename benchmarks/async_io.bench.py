from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/async_io.py"]
FOLDER = "{build}/benchmarks/async_io"
HOST = {"DS_ACCELERATOR": "cpu"}
FIO = ["fio", "--version"]


def of_fio(way):
    def ratio(sides):
        peers = [sides[name][way] for name in ("fio, io_uring", "fio, libaio") if name in sides]
        return sides["AnyAccel"][way] / max(peers)
    return ratio


def of_deepspeed(way):
    return lambda sides: sides["AnyAccel"][way] / sides["DeepSpeed 0.19.8"][way]


benchmark = Benchmark(
    title="Asynchronous input and output",
    about="""Throughput in GB/s when writing and reading one 1 GiB file with random content, in
        blocks of 1 MiB with a queue depth of 32, direct I/O and one thread. The two libraries use a
        pinned tensor of 1 GiB; fio reuses 32 buffers of 1 MiB. Writes overwrite existing blocks: no
        program truncates, preallocates or syncs. The libraries' times include opening and closing
        the file; fio's do not. The programs alternate on the same file, because a disk's speed
        varies from minute to minute; each run reports the best of three passes.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel", FOLDER], env={"PYTHONPATH": "{build}/python", **HOST}),
        Side("fio, io_uring", [*PROGRAM, "io_uring", FOLDER], needs=FIO, ours=()),
        Side("fio, libaio", [*PROGRAM, "libaio", FOLDER], needs=FIO, ours=()),
        Side("DeepSpeed 0.19.8", [*PROGRAM, "deepspeed", FOLDER], env=HOST, needs=["{python}", "-c", "import deepspeed"],
             ours=()),
    ],
    targets=[target for way in ("read_gb_s", "write_gb_s") for target in (
        Target(f"{way[:-5]}, over the better of fio's two engines", of_fio(way), at_least=0.97, unit="times"),
        Target(f"{way[:-5]}, over DeepSpeed's handle", of_deepspeed(way), at_least=1.0, unit="times"))])
