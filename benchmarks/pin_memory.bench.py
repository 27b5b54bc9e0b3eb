from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/pin_memory.py"]
HOST = {"DS_ACCELERATOR": "cpu"}


def times(peer, number):
    return lambda sides: sides[peer][number] / sides["AnyAccel"][number]


benchmark = Benchmark(
    title="Pinned memory",
    about="""Milliseconds to allocate 256 MiB of page-locked host memory, the best of five: for the first
        time (`first_ms`), and after a block of the same size was freed (`again_ms`). Torch's own pinned
        memory requires an accelerator, so plain `mmap` and `mlock` of the same size replace it.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel"], env={"PYTHONPATH": "{build}/python", **HOST}),
        Side("mmap and mlock", [*PROGRAM, "mlock"], ours=()),
        Side("DeepSpeed 0.19.8", [*PROGRAM, "deepspeed"], env=HOST, needs=["{python}", "-c", "import deepspeed"],
             ours=()),
    ],
    targets=[
        Target("new memory: speedup over mmap and mlock", times("mmap and mlock", "first_ms"), at_least=0.97, unit="times"),
        Target("reused memory: speedup over mmap and mlock", times("mmap and mlock", "again_ms"), at_least=10.0, unit="times"),
        Target("new memory: speedup over DeepSpeed's handle", times("DeepSpeed 0.19.8", "first_ms"), at_least=1.0, unit="times"),
        Target("reused memory: speedup over DeepSpeed's handle", times("DeepSpeed 0.19.8", "again_ms"), at_least=10.0, unit="times"),
    ])
