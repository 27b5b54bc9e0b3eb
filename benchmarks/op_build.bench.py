from runner.declare import Benchmark, Side, Target

# Ops that both build. DeepSpeed's must be able to: async_io wants libaio's header.
OPS = {"utils": "UtilsBuilder", "cpu_adam": "CPUAdamBuilder", "cpu_adagrad": "CPUAdagradBuilder", "cpu_lion": "CPULionBuilder",
       "fused_adam": "CPUFusedAdamBuilder", "deepspeed_shm_comm": "ShareMemCommBuilder", "async_io": "AsyncIOBuilder"}
MODULES = {"CPUFusedAdamBuilder": "deepspeed.ops.op_builder.cpu.FusedAdamBuilder", "UtilsBuilder": "deepspeed.ops.op_builder.utils.UtilsBuilder"}


def times_faster(op):
    return lambda numbers: numbers[f"DeepSpeed's {op}"]["build_s"] / numbers[op]["build_s"]


benchmark = Benchmark(
    title="First build of an op",
    about="""Seconds until an op that was never built is built, without a compiler cache: `anyaccel ops build --force` with an empty cache
        folder, the program's start counted, and DeepSpeed's `load()` with an empty TORCH_EXTENSIONS_DIR and its ninja, imports not counted. Both
        run as many compilers side by side as they choose.""",
    sides=[side for op, builder in OPS.items() for side in (
        Side(op, ["{python}", "{here}/op_build.py", "ours", "{build}/bin/anyaccel", op]),
        Side(f"DeepSpeed's {op}", ["{python}", "{here}/op_build.py", "deepspeed", MODULES.get(builder, builder)], env={"DS_ACCELERATOR": "cpu"},
             needs=["{python}", "{here}/op_build.py", "can", MODULES.get(builder, builder)]))],
    targets=[Target(f"{op}: DeepSpeed's time over ours", times_faster(op), at_least=3.0, unit="x") for op in OPS])
