from runner.declare import Benchmark, Side, Target

# {op: DeepSpeed's builder} for the ops that both AnyAccel and DeepSpeed can build. OURS lists two
# of our ops for async_io, because DeepSpeed's async_io includes pinned memory. DeepSpeed's async_io
# requires libaio's header.
BUILDERS = {"utils": "deepspeed.ops.op_builder.utils.UtilsBuilder", "cpu_adam": "CPUAdamBuilder", "cpu_adagrad": "CPUAdagradBuilder",
            "cpu_lion": "CPULionBuilder", "fused_adam": "deepspeed.ops.op_builder.cpu.FusedAdamBuilder",
            "deepspeed_shm_comm": "ShareMemCommBuilder", "async_io": "AsyncIOBuilder"}
OURS = {"async_io": ["async_io", "pin_memory"]}
ABOUT = """Seconds that an op's first build takes without a compiler cache. AnyAccel's time is that
    of `anyaccel ops build --force` with an empty cache folder, and includes the program's start.
    DeepSpeed's time is that of `load()` with an empty TORCH_EXTENSIONS_DIR and ninja, and excludes
    imports. Both choose how many compilers to run in parallel. """


def times_faster(op):
    return lambda numbers: numbers[f"DeepSpeed's {op}"]["build_s"] / numbers[op]["build_s"]


def compare(title, about, ops, rounds, reason):
    script = ["{python}", "{here}/op_build.py"]
    return Benchmark(
        title=title, about=ABOUT + about, rounds=rounds, few_rounds=reason, warm_up=False, prepare=[*script, "warm"],
        sides=[side for op in ops for side in (
            Side(op, [*script, "ours", "{build}/bin/anyaccel", *OURS.get(op, [op])]),
            Side(f"DeepSpeed's {op}", [*script, "deepspeed", BUILDERS[op]], env={"DS_ACCELERATOR": "cpu"},
                 needs=[*script, "can", BUILDERS[op]], ours=()))],
        targets=[Target(f"{op}: speedup over DeepSpeed", times_faster(op), at_least=3.0, unit="x") for op in ops])


benchmarks = {
    "op_build": compare("First build of an op", "", ["cpu_adam", "deepspeed_shm_comm"], 3,
                        "a round takes minutes."),
    "op_build_others": compare(
        "First build of the other ops", "With async_io, both also build pin_memory.",
        [op for op in BUILDERS if op not in ("cpu_adam", "deepspeed_shm_comm")], 1,
        "a round takes about eight minutes."),
}
