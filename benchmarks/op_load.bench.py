from runner.declare import Benchmark, Side, Target

OURS = """import json, time, torch, anyaccel
a = anyaccel.get_accelerator()
builder = a.create_op_builder("{name}")
begin = time.perf_counter(); builder.load()
print(json.dumps({"load_ms": (time.perf_counter() - begin) * 1e3}))
"""

DEEPSPEED = """import contextlib, json, os, sys, time, torch
with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.ops.op_builder import CPUAdamBuilder
    begin = time.perf_counter(); CPUAdamBuilder().load()
print(json.dumps({"load_ms": (time.perf_counter() - begin) * 1e3}))
"""


def load_ms(numbers, name):
    return numbers[name]["load_ms"]


benchmark = Benchmark(
    title="Loading a built op",
    about="""Milliseconds that `load()` takes for an op that is already built, in a fresh Python
        process that has imported torch: finding it, checking its key and checksum, and opening its
        library. DeepSpeed's first run, which builds the op, does not count.""",
    sides=[
        Side("utils", ["{python}", "-c", OURS.replace("{name}", "UtilsBuilder")], env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}),
        Side("cpu_adam", ["{python}", "-c", OURS.replace("{name}", "CPUAdamBuilder")],
             env={"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}),
        Side("DeepSpeed's cpu_adam, cached", ["{python}", "-c", DEEPSPEED], env={"DS_ACCELERATOR": "cpu"},
             needs=["{python}", "-c", "import deepspeed"], ours=()),
    ],
    targets=[
        Target("utils", lambda n: load_ms(n, "utils"), at_most=20, unit="ms"),
        Target("cpu_adam", lambda n: load_ms(n, "cpu_adam"), at_most=20, unit="ms"),
    ])
