from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/pin_memory.py"]
HOST = {"DS_ACCELERATOR": "cpu"}


def times(peer, number):
    return lambda sides: sides[peer][number] / sides["AnyAccel"][number]


benchmark = Benchmark(
    title="Pinned memory",
    about="""Milliseconds until 256 MiB of host memory are there, locked by the system: new memory (`first_ms`), and memory of a size that
        was given back before (`again_ms`); the best of five. torch's own pinned memory needs an accelerator; plain `mmap` and `mlock` of
        the same size stand in its place.""",
    sides=[
        Side("AnyAccel", [*PROGRAM, "anyaccel"], env={"PYTHONPATH": "{build}/python", **HOST}),
        Side("mmap and mlock", [*PROGRAM, "mlock"], ours=()),
        Side("DeepSpeed 0.19.8", [*PROGRAM, "deepspeed"], env=HOST, needs=["{python}", "-c", "import deepspeed"],
             ours=()),
    ],
    targets=[
        Target("new memory: over mmap and mlock", times("mmap and mlock", "first_ms"), at_least=0.97, unit="times"),
        Target("memory again: over mmap and mlock", times("mmap and mlock", "again_ms"), at_least=10.0, unit="times"),
        Target("new memory: over DeepSpeed's handle", times("DeepSpeed 0.19.8", "first_ms"), at_least=1.0, unit="times"),
        Target("memory again: over DeepSpeed's handle", times("DeepSpeed 0.19.8", "again_ms"), at_least=10.0, unit="times"),
    ])
